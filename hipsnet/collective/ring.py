# SPDX-License-Identifier: Apache-2.0
"""Ring all-reduce in 2(N-1) steps: reduce-scatter and all-gather around all ranks, in rank order."""

from __future__ import annotations

from math import prod

from hipsnet.collective import exchange
from hipsnet.collective.flat import flat
from hipsnet.collective.hierarchy import Hierarchy
from hipsnet.topology import FabricKind


def hierarchy(shape: FabricKind) -> Hierarchy:
    """Return the threads on any fabric, one for each port of a server."""
    return flat(shape, exchange.ring(prod(shape.radices)))
