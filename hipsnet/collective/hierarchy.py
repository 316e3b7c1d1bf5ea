# SPDX-License-Identifier: Apache-2.0
"""All-reduce level by level: the structure of HiPS and, with a single level, of the flat algorithms.

The ranks are the points of a grid. Each thread has a share of the vector and its own order of the grid's levels.
In that order, the groups of each level reduce-scatter, so that the range owned by a server shrinks to one part
per level. In the reverse order, the groups all-gather. A thread's pieces are ordered with the part of its first
level most significant, so that a server owns one contiguous range at every stage.
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

    def ends(self, count: int) -> list[int]:
        """Return the edges that cut a vector of `count` elements into the shares of the threads."""
        totals = accumulate((thread.share for thread in self.threads), initial=Fraction(0))
        return [int(count * total) for total in totals]


def build_hierarchy(algorithm: str, hierarchy: Hierarchy, count: int) -> Schedule:
    """Return the schedule of an all-reduce of `count` elements."""
    dims, threads = hierarchy.dims, hierarchy.threads
    transfers = [
        table
        for number, (thread, share) in enumerate(zip(threads, pairwise(hierarchy.ends(count)), strict=True))
        for table in _thread_transfers(number, thread, dims, *share)
    ]
    return assemble(algorithm, prod(dims), count, len(threads), transfers)


def _thread_transfers(
    number: int, thread: Thread, dims: Sequence[int], start: int, stop: int
) -> Iterator[NDArray[Any]]:
    span = prod(exchange.parts for exchange in thread.exchanges)
    edges = start + split(stop - start, span)
    ranks = np.arange(prod(dims))  # the servers that own a range
    piece = np.zeros_like(ranks)  # the first piece of each server's range
    server = np.full_like(ranks, thread.first_server)
    for step, level in enumerate(thread.levels):
        exchange, side, stride = thread.exchanges[level], dims[level], prod(dims[:level])
        span //= exchange.parts
        first = server % side if exchange.parts < side else np.zeros_like(ranks)
        digit = ranks // stride % side
        heads = np.flatnonzero(digit == 0)  # the lowest member of each group
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
    """Return the numbers of all levels, starting at `start` and wrapping around."""
    return tuple((start + step) % depth for step in range(depth))
