# SPDX-License-Identifier: Apache-2.0
"""Parameter servers, in 2 steps: every rank pushes to P servers, which add, and pulls the sums back."""

from __future__ import annotations

from math import prod

from hipsnet.collective import exchange
from hipsnet.collective.flat import flat
from hipsnet.collective.hierarchy import Hierarchy
from hipsnet.errors import InputError
from hipsnet.topology import FabricKind


def hierarchy(shape: FabricKind, servers: int = 1) -> Hierarchy:
    """Return the threads, one for each port; ranks 0 to `servers` - 1 are servers and workers.

    Raises InputError if there are fewer ranks than servers.
    """
    ranks = prod(shape.radices)
    if not 1 <= servers <= ranks:
        raise InputError(f"servers: found {servers}; allowed: 1 to {ranks}, the number of ranks")
    return flat(shape, exchange.server(ranks, servers))
