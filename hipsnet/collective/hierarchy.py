"""All-reduce level by level: the frame that HiPS, and with one level the flat algorithms, are written in.

The ranks are the points of a grid. A thread owns a part of the vector and visits the grid's levels in an order of its
own: on the way in, the group of each level scatters, so that the range a server answers for shrinks by the level's
side; on the way out, in reverse, the group gathers. The pieces of a thread are ordered with the digit of its first
level most significant, so the range of a server at any stage is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.exchange import Exchange, Move
from hipsnet.collective.schedule import TRANSFER, Schedule, assemble, split

PortOf = Callable[[int, int, int], int]
"""(level, position of the sender, position of the receiver) -> the sender's port."""


@dataclass(frozen=True)
class Thread:
    """`levels` in the order of the way in; how each level's group exchanges; by which port a member reaches another."""

    levels: tuple[int, ...]
    exchanges: tuple[Exchange, ...]  # by level
    port: PortOf


def build_hierarchy(algorithm: str, sides: Sequence[int], count: int, threads: Sequence[Thread]) -> Schedule:
    """The schedule in which every thread all-reduces its equal part of `count` elements over the grid `sides`."""
    parts = split(count, len(threads))
    world_size = prod(sides)
    transfers = [
        table
        for number, thread in enumerate(threads)
        for table in _thread_transfers(number, thread, sides, parts[number : number + 2])
    ]
    return assemble(algorithm, world_size, count, len(threads), transfers)


def _thread_transfers(
    number: int, thread: Thread, sides: Sequence[int], part: NDArray[np.int64]
) -> list[NDArray[Any]]:
    world_size, depth = prod(sides), len(sides)
    pieces = part[0] + split(int(part[1] - part[0]), world_size)
    strides = [prod(sides[:level]) for level in range(depth)]
    ranks = np.arange(world_size)
    digits = [ranks // strides[level] % sides[level] for level in range(depth)]
    first_piece = np.zeros(world_size, np.int64)  # of the range that each server answers for
    span = world_size
    tables = []
    for step, level in enumerate(thread.levels):
        span //= sides[level]
        exchange = thread.exchanges[level]
        for stage, moves in ((step, exchange.scatter), (2 * depth - 1 - step, exchange.gather)):
            for move in moves:
                senders = ranks[digits[level] == move.src]
                base = first_piece[senders] + move.first * span
                table = np.zeros(len(senders), TRANSFER)
                table["thread"], table["stage"], table["round"] = number, stage, move.round
                table["src"] = senders
                table["dst"] = senders + (move.dst - move.src) * strides[level]
                table["level"] = thread.port(level, move.src, move.dst)
                table["offset"] = pieces[base]
                table["length"] = pieces[base + move.blocks * span] - pieces[base]
                table["op"] = move.op
                tables.append(table)
        first_piece += digits[level] * span
    return tables


def rotated(depth: int, start: int) -> tuple[int, ...]:
    """All levels, each once, from `start` on."""
    return tuple((start + step) % depth for step in range(depth))


__all__ = ["Exchange", "Move", "Thread", "build_hierarchy", "rotated"]
