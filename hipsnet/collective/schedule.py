# SPDX-License-Identifier: Apache-2.0
"""A collective as data: a table of transfers in their order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.collectives import ALL_REDUCE, Collective

COPY, REDUCE, MERGE = 0, 1, 2
"""Operations of a transfer: overwrite the receiver's range, or combine the data with the receiver's range.

After a REDUCE, the sender has given its partial sum away; after a MERGE, both have it.
"""
OPERATIONS = ("copy", "reduce", "merge")
"""Their names."""

TRANSFER = np.dtype(
    [
        ("thread", np.uint16),
        ("stage", np.uint16),
        ("round", np.uint16),
        ("src", np.uint32),
        ("dst", np.uint32),
        ("level", np.uint16),  # index of the sender's port
        ("offset", np.int64),  # in elements of the vector
        ("length", np.int64),
        ("op", np.uint8),
    ]
)

ORDER = ("stage", "round", "thread", "src", "dst", "offset")
"""The columns by which transfers are sorted, the most significant first."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """A collective on a vector of `count` elements, over `world_size` ranks.

    `transfers` is a read-only array of dtype TRANSFER, sorted by ORDER. Stages are numbered in the order of
    execution. A transfer reads its range at `src` after every transfer of an earlier (stage, round) into that
    range has been applied, and before any of its own (stage, round). Transfers of one (stage, round) into the
    same range of one rank are applied in the order of the array.

    - REDUCE moves the sender's partial sum, which is initially its own contribution.
    - COPY forwards a complete sum.
    - MERGE leaves the sender its partial sum. The merges of one (stage, round) into a range are combined with
      the receiver's own value in order of rank, the lowest first: ranks that merge the same values get the
      same bits.

    `hipsnet.collective.check` verifies all of this, and the terms of `collective`.
    """

    algorithm: str
    world_size: int
    count: int
    threads: int
    transfers: NDArray[Any]
    collective: Collective = ALL_REDUCE


def assemble(
    algorithm: str,
    world_size: int,
    count: int,
    threads: int,
    parts: Sequence[NDArray[Any]],
    collective: Collective = ALL_REDUCE,
) -> Schedule:
    """Return a schedule of these transfers, sorted; empty transfers are dropped and adjacent ranges joined."""
    transfers = np.concatenate([np.empty(0, TRANSFER), *(part[part["length"] > 0] for part in parts)])
    transfers = joined(transfers[np.lexsort(_sort_keys(transfers))])
    transfers.setflags(write=False)
    return Schedule(algorithm, world_size, count, threads, transfers, collective)


def _sort_keys(transfers: NDArray[Any]) -> tuple[NDArray[np.int64], ...]:
    """Columns that sort transfers by ORDER, the least significant first: as few as fit into 63 bits each."""
    keys: list[NDArray[np.int64]] = []
    width = 63
    for name in ORDER:
        column = transfers[name].astype(np.int64)
        bits = int(column.max(initial=0)).bit_length()
        if width + bits > 62:
            keys.insert(0, column)
            width = bits
        else:
            keys[0] = keys[0] << bits | column
            width += bits
    return tuple(keys)


def joined(transfers: NDArray[Any]) -> NDArray[Any]:
    """Join sorted transfers that differ only in their range, where the next one begins where one ends."""
    if len(transfers) < 2:
        return transfers
    same = transfers["offset"][1:] == transfers["offset"][:-1] + transfers["length"][:-1]
    for column in ("src", "dst", "thread", "stage", "round", "level", "op"):
        same &= transfers[column][1:] == transfers[column][:-1]
    if not same.any():
        return transfers
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    result = transfers[first]
    result["length"] = np.add.reduceat(transfers["length"], first)
    return result


def involving(transfers: NDArray[Any], rank: int) -> NDArray[np.bool_]:
    """Return a mask of the transfers that `rank` sends or receives."""
    mask: NDArray[np.bool_] = (transfers["src"] == rank) | (transfers["dst"] == rank)
    return mask


def steps(schedule: Schedule) -> list[range]:
    """Return the transfers of each (stage, round) that is not empty, as ranges of row numbers."""
    transfers = schedule.transfers
    step = transfers["stage"].astype(np.int64) << 16 | transfers["round"]
    starts = [int(first) for first in np.flatnonzero(np.diff(step, prepend=-1))]
    return [range(first, stop) for first, stop in pairwise([*starts, len(transfers)])]


def split(count: int, parts: int) -> NDArray[np.int64]:
    """Return `parts` + 1 edges that cut `count` elements into parts with sizes that differ by at most one."""
    return np.arange(parts + 1, dtype=np.int64) * count // parts
