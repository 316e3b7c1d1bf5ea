# SPDX-License-Identifier: Apache-2.0
"""A collective as data: the transfers that compute it, in the order in which they count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

COPY, REDUCE = 0, 1
"""What a transfer does to its range at the receiver: overwrite it, or combine it with what is there."""

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

    `transfers` has dtype TRANSFER, is sorted by ORDER and cannot be written. Stages count on from those that
    aggregate to those that broadcast. A transfer reads its range at `src` after every transfer of an earlier
    (stage, round) into that range has been applied; transfers of one (stage, round) into the same range of
    one rank are applied in the order of the array. A REDUCE moves what the sender holds of the sum, which is
    its own contribution at first; a COPY hands on a complete sum (`hipsnet.collective.check` proves it).
    """

    algorithm: str
    world_size: int
    count: int
    threads: int
    transfers: NDArray[Any]


def assemble(
    algorithm: str, world_size: int, count: int, threads: int, parts: Sequence[NDArray[Any]]
) -> Schedule:
    """A schedule out of transfers in any order; those of no length are left out."""
    transfers = np.concatenate([np.empty(0, TRANSFER), *parts])
    transfers = transfers[transfers["length"] > 0]
    transfers = transfers[np.lexsort([transfers[column] for column in reversed(ORDER)])]
    transfers.setflags(write=False)
    return Schedule(algorithm, world_size, count, threads, transfers)


def involving(transfers: NDArray[Any], rank: int) -> NDArray[np.bool_]:
    """Which of the transfers `rank` sends or receives."""
    mask: NDArray[np.bool_] = (transfers["src"] == rank) | (transfers["dst"] == rank)
    return mask


def steps(schedule: Schedule) -> list[range]:
    """The transfers of each (stage, round) that has some, as ranges of their numbers."""
    transfers = schedule.transfers
    step = transfers["stage"].astype(np.int64) << 16 | transfers["round"]
    starts = [int(first) for first in np.flatnonzero(np.diff(step, prepend=-1))]
    return [range(first, stop) for first, stop in pairwise([*starts, len(transfers)])]


def split(count: int, parts: int) -> NDArray[np.int64]:
    """The `parts` + 1 edges that cut `count` elements into parts whose sizes differ by one at most."""
    return np.arange(parts + 1, dtype=np.int64) * count // parts
