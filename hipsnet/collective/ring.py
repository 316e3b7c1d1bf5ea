# SPDX-License-Identifier: Apache-2.0
"""Ring all-reduce in 2(N-1) steps: reduce-scatter and all-gather around all ranks, in rank order."""

from __future__ import annotations

from hipsnet.collective import exchange
from hipsnet.collective.flat import build_flat
from hipsnet.collective.schedule import Schedule
from hipsnet.topology import Fabric


def build(fabric: Fabric, count: int) -> Schedule:
    """Return the schedule on any fabric, with one thread for each port of a server."""
    return build_flat("ring", fabric, count, exchange.ring(len(fabric.servers)))
