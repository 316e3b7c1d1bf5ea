# SPDX-License-Identifier: Apache-2.0
"""Mesh (P2P) all-reduce in 2 steps: every rank sends one piece to each other rank, then collects all sums."""

from __future__ import annotations

from hipsnet.collective import exchange
from hipsnet.collective.flat import build_flat
from hipsnet.collective.schedule import Schedule
from hipsnet.topology import Fabric


def build(fabric: Fabric, count: int) -> Schedule:
    """Return the schedule on any fabric, with one thread for each port of a server."""
    return build_flat("mesh", fabric, count, exchange.mesh(len(fabric.servers)))
