# SPDX-License-Identifier: Apache-2.0
"""Mesh (P2P) all-reduce in 2 steps: every rank sends one piece to each other rank, then collects all sums."""

from __future__ import annotations

from math import prod

from hipsnet.collective import exchange
from hipsnet.collective.flat import flat
from hipsnet.collective.hierarchy import Hierarchy
from hipsnet.topology import FabricKind


def hierarchy(shape: FabricKind) -> Hierarchy:
    """Return the threads on any fabric, one for each port of a server."""
    return flat(shape, exchange.mesh(prod(shape.radices)))
