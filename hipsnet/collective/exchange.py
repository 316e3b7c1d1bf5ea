# SPDX-License-Identifier: Apache-2.0
"""The exchange of a range inside one group: the building block of every algorithm.

A group has m members and cuts its range into `parts`. After `scatter`, member i has the sum of part i, for
i < parts; after `gather`, every member has the sums of all parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Moves:
    """Columns of equal length: in `round`, member `src` sends part `part` to member `dst`."""

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
    """Direct exchange between all members: 1 round in each half, and an incast of m - 1 into each member."""
    return server(members, members)


@cache
def ring(members: int, direction: int = 1) -> Exchange:
    """Ring exchange in m - 1 rounds in each half; `direction` -1 sends to lower positions.

    In the scatter, a part starts at the member after its owner, collects contributions around the ring and ends
    at its owner; in the gather, it travels around the ring from there.
    """
    turn, src = (axis.ravel() for axis in np.indices((members - 1, members)))
    dst = (src + direction) % members
    scatter = Moves(turn, src, dst, (src - direction * (turn + 1)) % members)
    return Exchange(members, scatter, Moves(turn, src, dst, (src - direction * turn) % members))


@cache
def server(members: int, servers: int = 1) -> Exchange:
    """The first `servers` members sum one part each: 1 round in each half, and an incast of m - 1 into each."""
    summing, other = (axis.ravel() for axis in np.indices((servers, members)))
    summing, other = summing[summing != other], other[summing != other]
    at_once = np.zeros_like(other)
    push, pull = Moves(at_once, other, summing, summing), Moves(at_once, summing, other, summing)
    return Exchange(servers, push, pull)
