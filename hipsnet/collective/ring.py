# SPDX-License-Identifier: Apache-2.0
"""Ring all-reduce: scatter and gather around all ranks in rank order, 2(N-1) steps."""

from __future__ import annotations

from hipsnet.collective import exchange
from hipsnet.collective.flat import build_flat
from hipsnet.collective.schedule import Schedule
from hipsnet.topology import Fabric


def build(fabric: Fabric, count: int) -> Schedule:
    """The schedule on any fabric: one thread for each port of a server, each on its own port."""
    return build_flat("ring", fabric, count, exchange.ring(len(fabric.servers)))
