# SPDX-License-Identifier: Apache-2.0
"""All-reduce level by level: the frame of HiPS, and, with one level, of the flat algorithms.

The ranks are the points of a grid. A thread owns a share of the vector and visits the grid's levels in an
order of its own: on the way in, the group of each level scatters, so that the range that a server answers
for shrinks to one of the level's parts; on the way out, in reverse, the group gathers. A thread's pieces
are ordered with the part of its first level most significant, so what a server answers for is one
contiguous range at every stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.exchange import Column, Exchange
from hipsnet.collective.schedule import COPY, REDUCE, TRANSFER, Schedule, assemble, split


@dataclass(frozen=True, eq=False)
class Thread:
    """`share` of the vector visits `levels` in this order on the way in.

    `exchanges[level]` is what a group of that level does. `ports[level][distance]` is the port by which a
    member reaches the one whose digit is higher by `distance`, modulo the level's side.

    Where an exchange has fewer parts than members, its servers are those with digit `first_server` and the
    next ones; this counts on with the digits of the levels before, so that all servers take turns.
    """

    share: Fraction
    levels: tuple[int, ...]
    exchanges: tuple[Exchange, ...]
    ports: tuple[Column, ...]
    first_server: int = 0


def build_hierarchy(algorithm: str, dims: Sequence[int], count: int, threads: Sequence[Thread]) -> Schedule:
    """Return the schedule in which every thread all-reduces its share of `count` elements over the grid."""
    totals = accumulate((thread.share for thread in threads), initial=Fraction(0))
    ends = [int(count * total) for total in totals]
    transfers = [
        table
        for number, (thread, (start, stop)) in enumerate(zip(threads, pairwise(ends), strict=True))
        for table in _thread_transfers(number, thread, dims, start, stop)
    ]
    return assemble(algorithm, prod(dims), count, len(threads), transfers)


def _thread_transfers(
    number: int, thread: Thread, dims: Sequence[int], start: int, stop: int
) -> Iterator[NDArray[Any]]:
    span = prod(exchange.parts for exchange in thread.exchanges)
    edges = start + split(stop - start, span)
    ranks = np.arange(prod(dims))  # of the servers that answer for something
    piece = np.zeros_like(ranks)  # the first that each of them answers for
    server = np.full_like(ranks, thread.first_server)
    for step, level in enumerate(thread.levels):
        exchange, side, stride = thread.exchanges[level], dims[level], prod(dims[:level])
        span //= exchange.parts
        first = server % side if exchange.parts < side else np.zeros_like(ranks)
        digit = ranks // stride % side
        heads = np.flatnonzero(digit == 0)  # the groups, each by its lowest member
        stages = ((step, REDUCE, exchange.scatter), (2 * len(dims) - 1 - step, COPY, exchange.gather))
        for stage, op, moves in stages:
            src, dst = ((member + first[heads, None]) % side for member in (moves.src, moves.dst))
            part = piece[heads, None] + moves.part * span
            table = np.empty(src.shape, TRANSFER)
            table["thread"], table["stage"], table["round"], table["op"] = number, stage, moves.round, op
            table["src"] = ranks[heads, None] + src * stride
            table["dst"] = ranks[heads, None] + dst * stride
            table["level"] = thread.ports[level][(dst - src) % side]
            table["offset"], table["length"] = edges[part], edges[part + span] - edges[part]
            yield table.ravel()
        member = (digit - first) % side
        summing = member < exchange.parts
        ranks, piece, server = (column[summing] for column in (ranks, piece + member * span, server + member))


def rotated(depth: int, start: int) -> tuple[int, ...]:
    """Return all levels, each once, from `start` on."""
    return tuple((start + step) % depth for step in range(depth))
