# SPDX-License-Identifier: Apache-2.0
"""The exchange of a range inside one group: the building block of every algorithm.

A group has m members and cuts its range into `parts`. After the scatter, member i has the sum of part i, for
i < parts; after the gather, every member has the sums of all parts. With one member as the root, it deals the
parts to the members.
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

    def among(self, mask: NDArray[np.bool_]) -> Moves:
        """The moves that `mask` selects."""
        return Moves(self.round[mask], self.src[mask], self.dst[mask], self.part[mask])

    def reversed(self, rounds: int) -> Moves:
        """The moves from receiver to sender, the last one of `rounds` first."""
        return Moves(rounds - 1 - self.round, self.dst, self.src, self.part)


@dataclass(frozen=True)
class Exchange:
    """The all-reduce of a group of `members`, cut into `parts`; made by `mesh`, `ring`, `server` or `full`.

    `direction` is +1 or -1 around a ring, and 0 where a part travels directly to the member that sums it.
    `is_full`: the range is not cut; in the scatter all members send it to all others, and each sums it, so there
    is no gather.
    """

    members: int
    parts: int
    direction: int = 0
    is_full: bool = False

    @property
    def scatter(self) -> Moves:
        """The moves of all members in the first half; at their end, member i has the sum of part i."""
        return _moves(self, True)

    @property
    def gather(self) -> Moves:
        """The moves of all members in the second half; at their end, every member has all sums."""
        return _moves(self, False)

    @property
    def rounds(self) -> int:
        """The number of rounds of each half."""
        return self.members - 1 if self.direction else 1

    @property
    def is_symmetric(self) -> bool:
        """Whether all members send and receive alike, so that the moves of one describe those of all."""
        return self.is_full or self.parts == self.members

    def sent_by(self, member: int, *, scatter: bool) -> Moves:
        """The moves of one member alone, in one of the halves."""
        if self.direction:
            turn = np.arange(self.members - 1)
            return _around(self, turn, np.full_like(turn, member), scatter)
        if self.is_full:
            other = np.arange(self.members * scatter)
        else:
            sums = member < self.parts
            other = np.arange(self.parts if scatter else self.members * sums)
        other = other[other != member]
        src, at_once = np.full_like(other, member), np.zeros_like(other)
        part = np.zeros_like(other) if self.is_full else other if scatter else src
        return Moves(at_once, src, other, part)

    def deal(self, root: int) -> Moves:
        """The moves that bring part i from member `root` to member i; full: the whole range to all members."""
        return _deal(self, root)

    def gather_dealt(self, root: int) -> Moves:
        """The moves of the gather into members that do not have the part yet, after `deal`."""
        dealt, gather = self.deal(root), self.gather
        has = np.zeros((self.members, self.parts), np.bool_)
        has[root] = True
        has[dealt.dst, dealt.part] = True
        return gather.among(~has[gather.dst, gather.part])


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


def full(members: int) -> Exchange:
    """Each member sends its whole range to all others, and sums those that it receives: 1 round in all."""
    return Exchange(members, 1, is_full=True)


@cache
def _moves(exchange: Exchange, scatter: bool) -> Moves:
    members = range(exchange.members)
    each = [exchange.sent_by(member, scatter=scatter) for member in members]
    columns = [
        np.concatenate(column) for column in zip(*(vars(moves).values() for moves in each), strict=True)
    ]
    return Moves(*columns)


def _around(exchange: Exchange, turn: Column, src: Column, scatter: bool) -> Moves:
    direction, members = exchange.direction, exchange.members
    dst = (src + direction) % members
    return Moves(turn, src, dst, (src - direction * (turn + scatter)) % members)


@cache
def _deal(exchange: Exchange, root: int) -> Moves:
    members = exchange.members
    if exchange.direction:
        # In round i the member at distance i from the root passes on the parts of all that are farther.
        turn, distance = (axis.ravel() for axis in np.indices((members - 1, members)))
        turn, distance = turn[distance > turn], distance[distance > turn]
        src, dst, part = (
            (root + exchange.direction * place) % members for place in (turn, turn + 1, distance)
        )
        return Moves(turn, src, dst, part)
    other = np.arange(members)
    other = other[other != root]
    at_once = np.zeros_like(other)
    return Moves(at_once, at_once + root, other, at_once if exchange.is_full else other)
