# SPDX-License-Identifier: Apache-2.0
"""Where a rank keeps the ranges of the vector that it touches: in the caller's arrays, or in memory of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.schedule import Schedule, involving
from hipsnet.collective.vector import MOST_PIECES
from hipsnet.engine.engine import Piece

Ranges = tuple[tuple[int, int], ...]
"""(start, stop) of each range, in elements of the vector, in ascending order."""


@dataclass(frozen=True, eq=False)
class Region:
    """A part of a caller's array (1-D) that belongs to the elements of the vector from `first` on."""

    first: int
    array: NDArray[Any]

    @property
    def stop(self) -> int:
        return self.first + self.array.size

    def part(self, start: int, stop: int) -> NDArray[Any]:
        """The part of the array for [start, stop), as far as the region reaches."""
        return self.array[max(0, start - self.first) : max(0, stop - self.first)]


def touched(schedule: Schedule, rank: int, borders: Sequence[int]) -> Ranges:
    """Return the ranges that a rank sends or receives, such that each transfer lies within one of them.

    Ranges are divided at `borders`, except at those inside a transfer.
    """
    mine = schedule.transfers[involving(schedule.transfers, rank)]
    if not len(mine):
        return ()
    start, stop = mine["offset"], mine["offset"] + mine["length"]
    edges = np.unique(np.concatenate([start, stop, np.asarray(borders, np.int64)]))
    depth = np.zeros(len(edges) + 1, np.int64)  # transfers that cover the interval after an edge
    np.add.at(depth, np.searchsorted(edges, start), 1)
    np.add.at(depth, np.searchsorted(edges, stop), -1)
    covered = np.cumsum(depth)[:-1] > 0
    crossing = np.zeros(len(edges) + 1, np.int64)  # transfers with an edge strictly inside
    np.add.at(crossing, np.searchsorted(edges, start) + 1, 1)
    np.add.at(crossing, np.searchsorted(edges, stop), -1)
    is_crossed = np.cumsum(crossing)[:-1] > 0
    before = np.concatenate([[False], covered[:-1]])
    divides = np.isin(edges, borders) & ~is_crossed
    begins = edges[covered & (~before | divides)]
    ends = edges[before & (~covered | divides)]
    return tuple(zip(begins.tolist(), ends.tolist(), strict=True))


class Placement:
    """The pieces of a call: views of the caller's arrays where a range lies within one, else memory of its own.

    `gives`: the regions of the input, which is not changed. `takes`: the regions of the output.
    """

    def __init__(self, ranges: Ranges, gives: Sequence[Region], takes: Sequence[Region], dtype: Any) -> None:
        self._stores: list[tuple[NDArray[Any], NDArray[Any]]] = []
        if len(ranges) > MOST_PIECES:
            ranges = ((ranges[0][0], ranges[-1][1]),)
        self.pieces = [Piece(self._array(start, stop, gives, takes, dtype), start) for start, stop in ranges]
        if not self.pieces:
            self.pieces = [Piece(np.empty(0, dtype))]

    def _array(
        self, start: int, stop: int, gives: Sequence[Region], takes: Sequence[Region], dtype: Any
    ) -> NDArray[Any]:
        for region in (*gives, *takes):
            if region.first <= start and stop <= region.stop:
                return region.part(start, stop)
        own = np.empty(stop - start, dtype)
        for region in gives:
            given = region.part(start, stop)
            own[max(0, region.first - start) :][: given.size] = given
        for region in takes:
            taken = region.part(start, stop)
            if taken.size:
                self._stores.append((taken, own[max(0, region.first - start) :][: taken.size]))
        return own

    def store(self) -> None:
        """Copy the results into the output, where they are not there yet."""
        for output, own in self._stores:
            output[:] = own
