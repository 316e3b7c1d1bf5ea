# SPDX-License-Identifier: Apache-2.0
"""One rank's transfers, for algorithms in which all ranks do the same: a schedule without its N copies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.hierarchy import Hierarchy
from hipsnet.collective.schedule import COPY, MERGE, REDUCE, TRANSFER, split
from hipsnet.predict.bounds import SCHEDULE_BYTES, TooLarge

BYTES_PER_ROW = 4 * TRANSFER.itemsize
"""Memory for a transfer while a schedule is assembled and sorted."""


@dataclass(frozen=True, eq=False)
class Orbit:
    """What rank 0 sends, as an array of dtype TRANSFER; each row stands for `multiplicity` transfers.

    Every rank has rows with the same (stage, round, thread, level, length): exactly, if the pieces of every
    thread have the same length, otherwise within one element per row.
    """

    transfers: NDArray[Any]
    multiplicity: int


def is_symmetric(hierarchy: Hierarchy) -> bool:
    """Whether all ranks send and receive alike: every exchange is a mesh, a ring, or full."""
    return all(exchange.is_symmetric for thread in hierarchy.threads for exchange in thread.exchanges)


def rows(hierarchy: Hierarchy) -> int:
    """Return the number of transfers of a schedule without building it (more, if some pieces are empty)."""
    total = 0
    for thread in hierarchy.threads:
        owners = prod(hierarchy.dims)
        for level in thread.levels:
            exchange = thread.exchanges[level]
            if exchange.is_full:
                total += owners * (exchange.members - 1)
            else:
                owners = owners // exchange.members * exchange.parts
                total += 2 * owners * (exchange.members - 1)
    return total


def require_memory(hierarchy: Hierarchy, what: str, limit: int = SCHEDULE_BYTES) -> None:
    """Raise TooLarge if the schedule would take more than `limit` bytes while it is built; `what` needs it."""
    count = rows(hierarchy)
    if count * BYTES_PER_ROW > limit:
        raise TooLarge(
            f"{what} needs the whole schedule: {count:,} transfers, about {count * BYTES_PER_ROW / 2**30:.1f} GiB "
            f"of memory; allowed: {limit / 2**30:.1f} GiB. Use fewer servers, or an algorithm that sends to "
            "neighbours"
        )


def orbit(hierarchy: Hierarchy, count: int) -> Orbit:
    """Return rank 0's transfers of an all-reduce of `count` elements; `is_symmetric` must hold."""
    ends = hierarchy.ends(count)
    tables = [
        table
        for number, (thread, (start, stop)) in enumerate(zip(hierarchy.threads, pairwise(ends), strict=True))
        for table in _thread(hierarchy.dims, number, thread, start, stop)
    ]
    transfers = np.concatenate([np.empty(0, TRANSFER), *tables])
    return Orbit(transfers[transfers["length"] > 0], prod(hierarchy.dims))


def _thread(dims: tuple[int, ...], number: int, thread: Any, start: int, stop: int) -> list[NDArray[Any]]:
    """Rank 0 has digit 0 everywhere, so it owns the thread's first pieces at every stage."""
    span = prod(exchange.parts for exchange in thread.exchanges)
    edges = start + split(stop - start, span)
    tables = []
    for step, level in enumerate(thread.levels):
        exchange, side, stride = thread.exchanges[level], dims[level], prod(dims[:level])
        span //= exchange.parts
        combine = MERGE if exchange.is_full else REDUCE
        for stage, op, scatter in ((step, combine, True), (2 * len(dims) - 1 - step, COPY, False)):
            moves = exchange.sent_by(0, scatter=scatter)
            table = np.zeros(moves.src.shape, TRANSFER)
            table["thread"], table["stage"], table["round"], table["op"] = number, stage, moves.round, op
            table["dst"] = moves.dst * stride
            table["level"] = thread.ports[level][(moves.dst - moves.src) % side]
            part = moves.part * span
            table["offset"], table["length"] = edges[part], edges[part + span] - edges[part]
            tables.append(table)
    return tables
