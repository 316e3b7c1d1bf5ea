# SPDX-License-Identifier: Apache-2.0
"""Parameter servers: every rank pushes to P servers, which sum, and pulls the sums back; 2 steps."""

from __future__ import annotations

from hipsnet.collective import exchange
from hipsnet.collective.flat import build_flat
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric


def build(fabric: Fabric, count: int, servers: int = 1) -> Schedule:
    """Ranks 0 to `servers` - 1 are servers, and workers like all others; one thread for each port.

    Raises InputError where there are fewer ranks than servers.
    """
    ranks = len(fabric.servers)
    if not 1 <= servers <= ranks:
        raise InputError(f"servers: found {servers}; allowed: 1 to {ranks}, the number of ranks")
    return build_flat("ps", fabric, count, exchange.server(ranks, servers))
