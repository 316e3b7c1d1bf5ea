# SPDX-License-Identifier: Apache-2.0
"""Parameter servers, in 2 steps: every rank pushes to P servers, which add, and pulls the sums back."""

from __future__ import annotations

from math import prod

from hipsnet.collective import exchange
from hipsnet.collective.collectives import ALL_REDUCE, Collective
from hipsnet.collective.flat import flat
from hipsnet.collective.hierarchy import Hierarchy
from hipsnet.errors import InputError
from hipsnet.topology import FabricKind


def hierarchy(shape: FabricKind, servers: int = 1, collective: Collective = ALL_REDUCE) -> Hierarchy:
    """Return the threads, one for each port; ranks 0 to `servers` - 1 are servers and workers.

    Raises InputError if there are fewer ranks than servers, or for a collective other than all_reduce and barrier.
    """
    ranks = prod(shape.radices)
    if collective.name not in ("all_reduce", "barrier"):
        raise InputError(f"algorithm: ps is not defined for {collective.name}; use hips, ring or mesh")
    if not 1 <= servers <= ranks:
        raise InputError(f"servers: found {servers}; allowed: 1 to {ranks}, the number of ranks")
    return flat(shape, exchange.server(ranks, servers))
