# SPDX-License-Identifier: Apache-2.0
"""A collective as data: a table of transfers in their order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

COPY, REDUCE = 0, 1
"""Operations of a transfer: overwrite the receiver's range, or combine the data with the receiver's range."""

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

ORDER = ("stage", "round", "thread", "src", "dst")
"""The columns by which transfers are sorted, the most significant first."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """An all-reduce of `count` elements over `world_size` ranks.

    `transfers` is a read-only array of dtype TRANSFER, sorted by ORDER. Stages are numbered consecutively:
    first the stages that aggregate, then the stages that broadcast. A transfer reads its range at `src` after
    every transfer of an earlier (stage, round) into that range has been applied. Transfers of one (stage,
    round) into the same range of one rank are applied in the order of the array. A REDUCE moves the sender's
    partial sum, which is initially its own contribution; a COPY forwards a complete sum.
    `hipsnet.collective.check` verifies both.
    """

    algorithm: str
    world_size: int
    count: int
    threads: int
    transfers: NDArray[Any]


def assemble(
    algorithm: str, world_size: int, count: int, threads: int, parts: Sequence[NDArray[Any]]
) -> Schedule:
    """Return a schedule of these transfers, sorted; empty transfers are dropped."""
    transfers = np.concatenate([np.empty(0, TRANSFER), *parts])
    transfers = transfers[transfers["length"] > 0]
    transfers = transfers[np.lexsort([transfers[column] for column in reversed(ORDER)])]
    transfers.setflags(write=False)
    return Schedule(algorithm, world_size, count, threads, transfers)


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
