# SPDX-License-Identifier: Apache-2.0
"""The exchange of a range inside one group: the building block of every algorithm.

A group has m members and cuts its range into `parts`. After the scatter, member i has the sum of part i, for
i < parts; after the gather, every member has the sums of all parts.
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


@dataclass(frozen=True)
class Exchange:
    """The all-reduce of a group of `members`, cut into `parts`; made by `mesh`, `ring` or `server`.

    `direction` is +1 or -1 around a ring, and 0 where a part travels directly to the member that sums it.
    """

    members: int
    parts: int
    direction: int = 0

    @property
    def scatter(self) -> Moves:
        """The moves of all members in the first half; at their end, member i has the sum of part i."""
        return _moves(self, True)

    @property
    def gather(self) -> Moves:
        """The moves of all members in the second half; at their end, every member has all sums."""
        return _moves(self, False)

    @property
    def is_symmetric(self) -> bool:
        """Whether all members send and receive alike, so that the moves of one describe those of all."""
        return self.parts == self.members

    def sent_by(self, member: int, *, scatter: bool) -> Moves:
        """The moves of one member alone, in one of the halves."""
        if self.direction:
            turn = np.arange(self.members - 1)
            return _around(self, turn, np.full_like(turn, member), scatter)
        sums = member < self.parts
        other = np.arange(self.parts if scatter else self.members * sums)
        other = other[other != member]
        src, at_once = np.full_like(other, member), np.zeros_like(other)
        return Moves(at_once, src, other, other if scatter else src)


def mesh(members: int) -> Exchange:
    """Direct exchange between all members: 1 round in each half, and an incast of m - 1 into each member."""
    return server(members, members)


def ring(members: int, direction: int = 1) -> Exchange:
    """Ring exchange in m - 1 rounds in each half; `direction` -1 sends to lower positions.

    In the scatter, a part starts at the member after its owner, collects contributions around the ring and ends
    at its owner; in the gather, it travels around the ring from there.
    """
    return Exchange(members, members, direction)


def server(members: int, servers: int = 1) -> Exchange:
    """The first `servers` members sum one part each: 1 round in each half, and an incast of m - 1 into each."""
    return Exchange(members, servers)


@cache
def _moves(exchange: Exchange, scatter: bool) -> Moves:
    members = exchange.members
    if exchange.direction:
        turn, src = (axis.ravel() for axis in np.indices((members - 1, members)))
        return _around(exchange, turn, src, scatter)
    summing, other = (axis.ravel() for axis in np.indices((exchange.parts, members)))
    summing, other = summing[summing != other], other[summing != other]
    at_once = np.zeros_like(other)
    if scatter:
        return Moves(at_once, other, summing, summing)
    return Moves(at_once, summing, other, summing)


def _around(exchange: Exchange, turn: Column, src: Column, scatter: bool) -> Moves:
    direction, members = exchange.direction, exchange.members
    dst = (src + direction) % members
    return Moves(turn, src, dst, (src - direction * (turn + scatter)) % members)
