# SPDX-License-Identifier: Apache-2.0
"""Parameter servers, in 2 steps: every rank pushes to P servers, which add, and pulls the sums back."""

from __future__ import annotations

from hipsnet.collective import exchange
from hipsnet.collective.flat import build_flat
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric


def build(fabric: Fabric, count: int, servers: int = 1) -> Schedule:
    """Return the schedule; ranks 0 to `servers` - 1 are servers and workers. One thread for each port.

    Raises InputError if there are fewer ranks than servers.
    """
    ranks = len(fabric.servers)
    if not 1 <= servers <= ranks:
        raise InputError(f"servers: found {servers}; allowed: 1 to {ranks}, the number of ranks")
    return build_flat("ps", fabric, count, exchange.server(ranks, servers))
