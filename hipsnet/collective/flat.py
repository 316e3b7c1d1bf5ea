# SPDX-License-Identifier: Apache-2.0
"""The structure of the flat algorithms: one level that contains all ranks, and one thread per port."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hipsnet.collective.exchange import Exchange
from hipsnet.collective.hierarchy import Hierarchy, Thread
from hipsnet.topology import FabricKind


def flat(shape: FabricKind, exchange: Exchange) -> Hierarchy:
    """Return the hierarchy in which thread t runs `exchange` over all ranks on its part, through port t."""
    ranks, ports = exchange.members, shape.ports_per_server
    share = Fraction(1, ports)
    threads = (Thread(share, (0,), (exchange,), (np.full(ranks, port),)) for port in range(ports))
    return Hierarchy((ranks,), tuple(threads))
