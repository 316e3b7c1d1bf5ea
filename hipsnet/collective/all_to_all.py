# SPDX-License-Identifier: Apache-2.0
"""All-to-all level by level: a block corrects the digits of its rank one after the other, one hop at a time.

Each thread has a portion of every block and corrects the digits in its own order, so all ports are busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.collectives import Collective
from hipsnet.collective.hierarchy import Hierarchy, Thread
from hipsnet.collective.pieces import Column, pieces_of_shares
from hipsnet.collective.schedule import COPY, TRANSFER, Schedule, assemble


def build_all_to_all(algorithm: str, hierarchy: Hierarchy, count: int, collective: Collective) -> Schedule:
    """Return the schedule; `count` is the sum of all blocks, of all ranks.

    Around a ring, blocks go the shorter way, unless all threads have the direction +1. Blocks for the opposite
    member go in the direction of their thread. Raises InputError if the counts do not fit.
    """
    dims = hierarchy.dims
    ranks, edges = prod(dims), collective.terms(count, prod(dims)).edges
    is_one_way = all(exchange.direction == 1 for thread in hierarchy.threads for exchange in thread.exchanges)
    tables = []
    for number, thread in enumerate(hierarchy.threads):
        portion = hierarchy.portions[number], hierarchy.portions[number + 1]
        pieces = pieces_of_shares(edges, np.arange(ranks**2), portion)
        for table, block in _hops(number, thread, dims, is_one_way):
            tables.append(pieces.placed(table, block, 1))
    return assemble(algorithm, ranks, count, len(hierarchy.threads), tables, collective)


@dataclass(frozen=True, eq=False)
class _Ring:
    """The blocks of one level: the digits that they have and need, and the hops and direction between these."""

    digit: Column
    hops: Column
    direction: Column


def _hops(
    number: int, thread: Thread, dims: Sequence[int], is_one_way: bool
) -> Iterator[tuple[NDArray[Any], Column]]:
    """Yield the hops of all blocks, as transfers without ranges and the blocks' numbers, round by round."""
    ranks = prod(dims)
    here, target = (axis.ravel() for axis in np.indices((ranks, ranks)))
    for stage, level in enumerate(thread.levels):
        side, stride = dims[level], prod(dims[:level])
        ring = _ring(thread, level, here // stride % side, target // stride % side, is_one_way)
        for turn in range(int(ring.hops.max(initial=0))):
            block = np.flatnonzero(ring.hops > turn)
            moved = ring.direction[block]
            digit = (ring.digit[block] + turn * moved) % side
            base = here[block] - ring.digit[block] * stride
            table = np.empty(len(block), TRANSFER)
            table["thread"], table["stage"], table["round"], table["op"] = number, stage, turn, COPY
            table["src"] = base + digit * stride
            table["dst"] = base + (digit + moved) % side * stride
            table["level"] = thread.ports[level][moved % side]
            yield table, block
        here = here + (target // stride % side - ring.digit) * stride


def _ring(thread: Thread, level: int, digit: Column, needed: Column, is_one_way: bool) -> _Ring:
    """Directly connected members are one hop apart, in the direction of their distance."""
    exchange = thread.exchanges[level]
    side, distance = exchange.members, (needed - digit) % exchange.members
    if not exchange.direction:
        return _Ring(digit, (distance > 0).astype(np.int64), distance)
    forward = 2 * distance < side + (exchange.direction > 0)
    if is_one_way:
        forward = np.ones_like(forward)
    return _Ring(digit, np.where(forward, distance, (-distance) % side), np.where(forward, 1, -1))
