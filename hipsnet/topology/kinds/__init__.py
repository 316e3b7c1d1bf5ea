# SPDX-License-Identifier: Apache-2.0
"""The registry of fabric kinds: a kind is one class in one module, and one line here."""

from __future__ import annotations

from hipsnet.topology.kinds.bcube import BCube
from hipsnet.topology.kinds.dragonfly import Dragonfly
from hipsnet.topology.kinds.fattree import FatTree
from hipsnet.topology.kinds.kind import Census, FabricKind, HipsLevels
from hipsnet.topology.kinds.leafspine import LeafSpine
from hipsnet.topology.kinds.torus import Torus

KINDS: tuple[type[FabricKind], ...] = (
    BCube,
    Torus,
    FatTree,
    LeafSpine,
    Dragonfly,
)

__all__ = [
    "KINDS",
    "BCube",
    "Census",
    "Dragonfly",
    "FabricKind",
    "FatTree",
    "HipsLevels",
    "LeafSpine",
    "Torus",
]
