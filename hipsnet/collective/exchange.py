# SPDX-License-Identifier: Apache-2.0
"""How the members of one group exchange parts of a range: the building block of every algorithm.

A group has m members and cuts its range into `parts`. `scatter` leaves member i with the sum of part i, for
i < parts; `gather` gives every member all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Moves:
    """Columns of one length: in `round`, member `src` sends part `part` to member `dst`."""

    round: Column
    src: Column
    dst: Column
    part: Column


@dataclass(frozen=True, eq=False)
class Exchange:
    """The two halves of an all-reduce inside a group."""

    parts: int
    scatter: Moves
    gather: Moves


def mesh(members: int) -> Exchange:
    """Everyone with everyone at once: 1 round each way, and m - 1 senders into each member."""
    return server(members, members)


@cache
def ring(members: int, direction: int = 1) -> Exchange:
    """Around the ring in m - 1 rounds each way; `direction` -1 goes towards lower positions.

    A part starts behind its owner and gathers contributions until it ends there, then goes round from there.
    """
    turn, src = (axis.ravel() for axis in np.indices((members - 1, members)))
    dst = (src + direction) % members
    scatter = Moves(turn, src, dst, (src - direction * (turn + 1)) % members)
    return Exchange(members, scatter, Moves(turn, src, dst, (src - direction * turn) % members))


@cache
def server(members: int, servers: int = 1) -> Exchange:
    """The first `servers` members sum a part each for all: 1 round each way, m - 1 senders into each."""
    summing, other = (axis.ravel() for axis in np.indices((servers, members)))
    summing, other = summing[summing != other], other[summing != other]
    at_once = np.zeros_like(other)
    push, pull = Moves(at_once, other, summing, summing), Moves(at_once, summing, other, summing)
    return Exchange(servers, push, pull)
