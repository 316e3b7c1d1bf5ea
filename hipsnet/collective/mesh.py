# SPDX-License-Identifier: Apache-2.0
"""Mesh (P2P) all-reduce in 2 steps: every rank sends one piece to each other rank, then collects all sums."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np

from hipsnet.collective import exchange
from hipsnet.collective.collectives import ALL_REDUCE, Collective
from hipsnet.collective.flat import flat
from hipsnet.collective.hierarchy import Hierarchy, Thread
from hipsnet.topology import FabricKind


def hierarchy(shape: FabricKind, is_full: bool = False, collective: Collective = ALL_REDUCE) -> Hierarchy:
    """Return the threads on any fabric, one for each port of a server.

    `is_full`: one thread, in which each rank sends its whole range to all others, in 1 step.
    """
    ranks = prod(shape.radices)
    if not is_full:
        return flat(shape, exchange.mesh(ranks))
    inside = exchange.mesh(ranks) if collective.has_shares else exchange.full(ranks)
    ports = np.arange(ranks) % shape.ports_per_server  # by distance: all ports carry alike
    return Hierarchy((ranks,), (Thread(Fraction(1), (0,), (inside,), (ports,)),))
