# SPDX-License-Identifier: Apache-2.0
"""The structure of the flat algorithms: one level that contains all ranks, and one thread per port."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hipsnet.collective.exchange import Exchange
from hipsnet.collective.hierarchy import Thread, build_hierarchy
from hipsnet.collective.schedule import Schedule
from hipsnet.topology import Fabric


def build_flat(name: str, fabric: Fabric, count: int, exchange: Exchange) -> Schedule:
    """Return the schedule in which thread t runs `exchange` over all ranks on its part, through port t."""
    ranks, ports = len(fabric.servers), len(fabric.servers[0].ports)
    share = Fraction(1, ports)
    threads = [Thread(share, (0,), (exchange,), (np.full(ranks, port),)) for port in range(ports)]
    return build_hierarchy(name, (ranks,), count, threads)
