# SPDX-License-Identifier: Apache-2.0
"""Collectives level by level: the structure of HiPS and, with a single level, of the flat algorithms.

The ranks are the points of a grid. Each thread has a share of the vector and its own order of the grid's levels.
In that order, the groups of each level reduce-scatter, so that the range owned by a server shrinks to one part
per level. In the reverse order, the groups all-gather. A thread's pieces are ordered with the part of its first
level most significant, so that a server owns one contiguous range at every stage.

The other collectives are made of these halves (`_HALVES`). With a root, the groups of the servers that already
have data *deal* it, level by level; those groups gather only what their members lack. A collective into a root
is the mirror image of the one out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.collectives import ALL_REDUCE, Collective
from hipsnet.collective.exchange import Column, Exchange, Moves
from hipsnet.collective.pieces import Pieces, adjacent_pieces, pieces_of_shares
from hipsnet.collective.schedule import COPY, MERGE, REDUCE, TRANSFER, Schedule, assemble

_HALVES = {
    "all_reduce": ("scatter", "gather"),
    "barrier": ("scatter", "gather"),
    "reduce_scatter": ("scatter",),
    "all_gather": ("gather",),
    "broadcast": ("deal", "gather"),
    "scatter": ("deal",),
}
_MIRRORS = {"reduce": "broadcast", "gather": "scatter"}


@dataclass(frozen=True, eq=False)
class Thread:
    """A `share` of the vector, reduced over `levels` in this order and gathered in the reverse order.

    `exchanges[level]` is the exchange inside the groups of that level. `ports[level][distance]` is the port
    that leads to the member with a digit higher by `distance`, modulo the size of the level.

    If an exchange has fewer parts than members, the summing servers are the members from digit `first_server`
    on; the digits of earlier levels are added to it, so that all servers take turns.
    """

    share: Fraction
    levels: tuple[int, ...]
    exchanges: tuple[Exchange, ...]
    ports: tuple[Column, ...]
    first_server: int = 0


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """An algorithm on a fabric, for vectors of any length: the grid of the ranks, and the threads."""

    dims: tuple[int, ...]
    threads: tuple[Thread, ...]

    @property
    def portions(self) -> list[Fraction]:
        """The sums of the threads' shares: thread t has what lies between portions t and t + 1."""
        return list(accumulate((thread.share for thread in self.threads), initial=Fraction(0)))

    def ends(self, count: int) -> list[int]:
        """Return the edges that cut a vector of `count` elements into the shares of the threads."""
        return [int(count * total) for total in self.portions]


def build_hierarchy(
    algorithm: str, hierarchy: Hierarchy, count: int, collective: Collective = ALL_REDUCE
) -> Schedule:
    """Return the schedule of a collective other than all_to_all on a vector of `count` elements.

    Raises InputError for a root or counts that do not fit the ranks and the vector.
    """
    dims, ranks = hierarchy.dims, prod(hierarchy.dims)
    collective.terms(count, ranks)
    tables = [
        table
        for number, thread in enumerate(hierarchy.threads)
        for table in _thread_transfers(
            number, thread, dims, collective, _pieces(hierarchy, number, count, collective)
        )
    ]
    return assemble(algorithm, ranks, count, len(hierarchy.threads), tables, collective)


def rotated(depth: int, start: int) -> tuple[int, ...]:
    """Return the numbers of all levels, starting at `start` and wrapping around."""
    return tuple((start + step) % depth for step in range(depth))


def _pieces(hierarchy: Hierarchy, number: int, count: int, collective: Collective) -> Pieces:
    """The ranges of a thread's pieces."""
    thread, dims = hierarchy.threads[number], hierarchy.dims
    if collective.has_shares:
        owner = np.empty(prod(dims), np.int64)
        owner[_piece_of_each_rank(thread, dims)] = np.arange(len(owner))
        portion = hierarchy.portions[number], hierarchy.portions[number + 1]
        return pieces_of_shares(collective.shares(count, len(owner)), owner, portion)
    weights = np.ones(prod(exchange.parts for exchange in thread.exchanges), np.int64)
    level = thread.levels[0]
    if collective.has_root and thread.exchanges[level].parts > 1:
        # The root owns nothing, so that its ports carry only the vector itself.
        digit = _digit(collective.root, dims, level)
        weights.reshape(thread.exchanges[level].parts, -1)[digit] = 0
    ends = hierarchy.ends(count)
    return adjacent_pieces(ends[number], ends[number + 1], weights)


def _piece_of_each_rank(thread: Thread, dims: Sequence[int]) -> Column:
    """The piece that a rank owns, where every rank owns one."""
    ranks = np.arange(prod(dims))
    piece = np.zeros_like(ranks)
    for level in thread.levels:
        piece = piece * dims[level] + _digit(ranks, dims, level)
    return piece


def _digit(rank: Any, dims: Sequence[int], level: int) -> Any:
    return rank // prod(dims[:level]) % dims[level]


@dataclass(frozen=True, eq=False)
class _Groups:
    """The groups of a thread at one step: those of a level whose members still own a range.

    A member's rank is `head` + its digit * `stride`; its position is the distance of its digit from `first`.
    Each part of the range consists of `span` pieces; the first piece of the range is `piece`.
    """

    step: int
    level: int
    exchange: Exchange
    stride: int
    span: int
    head: Column
    piece: Column
    first: Column

    def among(self, mask: NDArray[np.bool_]) -> _Groups:
        return replace(self, head=self.head[mask], piece=self.piece[mask], first=self.first[mask])


def _groups(thread: Thread, dims: Sequence[int]) -> Iterator[_Groups]:
    span = prod(exchange.parts for exchange in thread.exchanges)
    ranks = np.arange(prod(dims))  # the servers that own a range
    piece = np.zeros_like(ranks)  # the first piece of each server's range
    server = np.full_like(ranks, thread.first_server)
    for step, level in enumerate(thread.levels):
        exchange, side, stride = thread.exchanges[level], dims[level], prod(dims[:level])
        span //= exchange.parts
        first = np.zeros_like(ranks) if exchange.is_symmetric else server % side
        digit = _digit(ranks, dims, level)
        lowest = digit == 0
        yield _Groups(step, level, exchange, stride, span, ranks[lowest], piece[lowest], first[lowest])
        member = (digit - first) % side
        piece = piece + (0 if exchange.is_full else member * span)
        stays = (member < exchange.parts) | exchange.is_full
        ranks, piece, server = ranks[stays], piece[stays], (server + member)[stays]


_Phase = tuple[int, int, _Groups, Moves]
"""(stage, operation, groups, the moves inside each of them)."""


def _thread_transfers(
    number: int, thread: Thread, dims: Sequence[int], collective: Collective, pieces: Pieces
) -> Iterator[NDArray[Any]]:
    is_mirrored = collective.name in _MIRRORS
    halves = _HALVES[_MIRRORS.get(collective.name, collective.name)]
    if is_mirrored:
        turned = (replace(exchange, direction=-exchange.direction) for exchange in thread.exchanges)
        thread = replace(thread, exchanges=tuple(turned))
    for groups in _groups(thread, dims):
        for half, name in enumerate(halves):
            for stage, op, found, moves in _phases(name, half, groups, thread, dims, collective):
                if is_mirrored:
                    stage = len(halves) * len(dims) - 1 - stage
                    op = REDUCE if collective.reduces else COPY
                    moves = moves.reversed(groups.exchange.rounds)
                yield _table(number, stage, op, found, moves, thread, pieces)


def _phases(
    name: str, half: int, groups: _Groups, thread: Thread, dims: Sequence[int], collective: Collective
) -> Iterator[_Phase]:
    """The moves of one half at one step."""
    exchange, step = groups.exchange, groups.step
    stage = half * len(dims) + (len(dims) - 1 - step if name == "gather" else step)
    if name == "scatter":
        yield stage, MERGE if exchange.is_full else REDUCE, groups, exchange.scatter
        return
    if not collective.has_root:
        yield stage, COPY, groups, exchange.gather
        return
    root = _digit(collective.root, dims, groups.level)
    has_data = _is_dealt(groups, thread, dims, collective.root)
    if name == "deal":
        yield stage, COPY, groups.among(has_data), exchange.deal(root)
    else:
        yield stage, COPY, groups.among(has_data), exchange.gather_dealt(root)
        yield stage, COPY, groups.among(~has_data), exchange.gather


def _is_dealt(groups: _Groups, thread: Thread, dims: Sequence[int], root: int) -> NDArray[np.bool_]:
    """Whether one member of a group has its range before this step: the group equals the root at later levels."""
    mask = np.ones(len(groups.head), np.bool_)
    for level in thread.levels[groups.step + 1 :]:
        mask &= _digit(groups.head, dims, level) == _digit(root, dims, level)
    return mask


def _table(
    number: int, stage: int, op: int, groups: _Groups, moves: Moves, thread: Thread, pieces: Pieces
) -> NDArray[Any]:
    side = groups.exchange.members
    src, dst = ((member + groups.first[:, None]) % side for member in (moves.src, moves.dst))
    table = np.empty(src.shape, TRANSFER)
    table["thread"], table["stage"], table["round"], table["op"] = number, stage, moves.round, op
    table["src"] = groups.head[:, None] + src * groups.stride
    table["dst"] = groups.head[:, None] + dst * groups.stride
    table["level"] = thread.ports[groups.level][(dst - src) % side]
    part = groups.piece[:, None] + moves.part * groups.span
    return pieces.placed(table.ravel(), part.ravel(), groups.span)
