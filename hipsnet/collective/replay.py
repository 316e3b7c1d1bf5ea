# SPDX-License-Identifier: Apache-2.0
"""Replays a schedule on all ranks at once, and finds the first element at which something is wrong.

The vector is cut at every boundary of a transfer into intervals. A cell is one interval on one rank. Its value is
the sum of random 64-bit numbers, one for each contribution that the rank holds: 0 if there is none, the interval's
total if the sum is complete. A sum that lacks a contribution or has one twice differs from the total, except with a
probability of 2^-64. Where ranks MERGE, a second number identifies the order of the additions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from hipsnet.collective.collectives import EVERY
from hipsnet.collective.schedule import COPY, MERGE, REDUCE, Schedule

CELLS = 1 << 24
"""Cells that are replayed at once, unless the intervals of one transfer have more: 128 MiB."""

_AT_ONCE = 1 << 22
"""Cells that are copied at once."""

Column = NDArray[np.int64]
Values = NDArray[np.uint64]


def first_fault(schedule: Schedule) -> int | None:
    """Return an element at which the schedule is wrong; None if it is correct.

    The columns of the schedule are within their limits (`check`).
    """
    t = schedule.transfers
    terms = schedule.collective.terms(schedule.count, schedule.world_size)
    cuts = np.unique(np.concatenate([t["offset"], t["offset"] + t["length"], terms.edges]))
    if len(cuts) < 2:
        return None
    rows = _Rows.of(schedule, cuts)
    parts = np.searchsorted(terms.edges, cuts[:-1], side="right") - 1
    numbers = np.random.default_rng(schedule.world_size).integers(1, 1 << 63, schedule.world_size, np.uint64)
    for start, stop, chosen in _blocks(rows, len(cuts) - 1, schedule.world_size):
        part = parts[start:stop]
        block = _Block(chosen, terms.contributor[part], terms.holder[part], numbers)
        fault = block.replay()
        if fault is not None:
            return int(cuts[start + fault])
    return None


@dataclass(frozen=True, eq=False)
class _Rows:
    """Transfers as columns: intervals [first, first + width) of one rank are sent to another."""

    step: Column
    op: NDArray[np.uint8]
    src: Column
    dst: Column
    first: Column
    width: Column

    @classmethod
    def of(cls, schedule: Schedule, cuts: Column) -> _Rows:
        t = schedule.transfers
        step = t["stage"].astype(np.int64) << 16 | t["round"]
        first = np.searchsorted(cuts, t["offset"])
        width = np.searchsorted(cuts, t["offset"] + t["length"]) - first
        return cls(step, t["op"].copy(), t["src"].astype(np.int64), t["dst"].astype(np.int64), first, width)

    def among(self, chosen: Any) -> _Rows:
        return _Rows(*(column[chosen] for column in vars(self).values()))

    def moved(self, start: int) -> _Rows:
        return _Rows(self.step, self.op, self.src, self.dst, self.first - start, self.width)

    def __len__(self) -> int:
        return len(self.step)


def _blocks(rows: _Rows, intervals: int, ranks: int) -> Iterator[tuple[int, int, _Rows]]:
    """Cut the intervals where no transfer crosses: (first interval, end, the transfers between them)."""
    crossing = np.zeros(intervals + 1, np.int64)
    np.add.at(crossing, rows.first + 1, 1)
    np.add.at(crossing, rows.first + rows.width, -1)
    free = np.flatnonzero(np.cumsum(crossing) == 0)[1:]  # interval 0 begins the first block
    edges, previous = [0], 0
    for edge in np.concatenate([free[free < intervals], [intervals]]).tolist():
        if edge - edges[-1] > CELLS // ranks and previous > edges[-1]:
            edges.append(previous)
        previous = edge
    edges.append(intervals)
    block = np.searchsorted(edges, rows.first, side="right") - 1
    order = np.argsort(block, kind="stable")
    bounds = np.searchsorted(block[order], np.arange(len(edges)))
    for number, (start, stop) in enumerate(pairwise(edges)):
        yield start, stop, rows.among(order[bounds[number] : bounds[number + 1]]).moved(start)


class _Found(Exception):
    """A fault in the interval of this number."""

    def __init__(self, interval: int) -> None:
        super().__init__(interval)
        self.interval = interval


class _Block:
    """The cells of a block of intervals: cell = rank * intervals + interval."""

    def __init__(self, rows: _Rows, contributor: Column, holder: Column, numbers: Values) -> None:
        self.rows, self.holder, self.intervals = rows, holder, len(holder)
        self.ranks = len(numbers)
        ranks = np.arange(self.ranks)[:, None]
        with np.errstate(over="ignore"):
            gives = (contributor == EVERY) | (contributor == ranks)
            self.sums: Values = np.where(gives, numbers[:, None], np.uint64(0)).ravel()
            every = numbers.sum(dtype=np.uint64)
            self.total: Values = np.where(contributor == EVERY, every, numbers[np.maximum(contributor, 0)])
        has_merges = bool((rows.op == MERGE).any())
        self.orders: Values | None = self.sums.copy() if has_merges else None
        self.is_merged = np.zeros(len(self.sums), np.bool_) if has_merges else None

    def replay(self) -> int | None:
        """Return the number of an interval with a fault, or None."""
        starts = np.flatnonzero(np.diff(self.rows.step, prepend=-1)).tolist()
        try:
            for start, stop in pairwise([*starts, len(self.rows)]):
                step = self.rows.among(slice(start, stop))
                copies, reduces, merges = (step.among(step.op == op) for op in (COPY, REDUCE, MERGE))
                self._require_order(copies, reduces, merges)
                self._copy(copies)
                self._reduce(reduces)
                self._merge(merges)
            self._require_end()
        except _Found as found:
            return found.interval
        return None

    def _require_order(self, copies: _Rows, reduces: _Rows, merges: _Rows) -> None:
        """Require that no cell is given away or overwritten twice in a round, or changed and read."""
        given, added = self._at(reduces, reduces.src), self._at(reduces, reduces.dst)
        copied = self._at(copies, copies.dst)
        merged, read = self._at(merges, merges.dst), self._at(merges, merges.src)
        overlaps = [_repeated(given), _repeated(copied), _common(copied, self._at(copies, copies.src))]
        overlaps += [_common(given, other) for other in (added, copied, merged, read)]
        overlaps += [_common(added, other) for other in (merged, read)]
        for overlap in overlaps:
            self._require(overlap)

    def _at(self, rows: _Rows, rank: Column) -> _Ranges:
        """The cells of transfers at one of their ends."""
        start = rank * self.intervals + rows.first
        return start, start + rows.width

    def _require(self, wrong: Column) -> None:
        """Raise _Found if there is a wrong cell."""
        if wrong.size:
            raise _Found(int(wrong[0]) % self.intervals)

    def _copy(self, copies: _Rows) -> None:
        for rows in _same_width(copies, _AT_ONCE):
            width = int(rows.width[0])
            sums, total = _windows(self.sums, width), _windows(self.total, width)[rows.first]
            src, dst = self._at(rows, rows.src)[0], self._at(rows, rows.dst)[0]
            self._require(_first(sums[src] != total, src))
            self._require(_first(sums[dst] != 0, dst))
            sums[dst] = total
            if self.orders is not None:
                orders = _windows(self.orders, width)
                orders[dst] = orders[src]

    def _reduce(self, reduces: _Rows) -> None:
        for rows in _same_width(reduces):
            for wave in _waves(self._at(rows, rows.dst)[0], int(rows.width[0])):
                self._reduce_wave(rows.among(wave))

    def _reduce_wave(self, rows: _Rows) -> None:
        """Apply transfers of the same width into different cells."""
        width = int(rows.width[0])
        sums, total = _windows(self.sums, width), _windows(self.total, width)[rows.first]
        src, dst = self._at(rows, rows.src)[0], self._at(rows, rows.dst)[0]
        given, there = sums[src], sums[dst]
        self._require(_first(given == 0, src))
        self._require(_first((there == 0) | (there == total), dst))
        there += given
        sums[dst] = there
        sums[src] = 0
        if self.orders is not None and self.is_merged is not None:
            orders = _windows(self.orders, width)
            self._require(_first(_windows(self.is_merged, width)[src], src))
            orders[dst] = _combined(orders[dst], orders[src])

    def _merge(self, merges: _Rows) -> None:
        if self.orders is None or self.is_merged is None or not len(merges):
            return
        sums_before, orders_before = self.sums.copy(), self.orders.copy()
        rows = _merges_by_cell(merges)
        sources, targets = (self._at(rows, rank)[0] for rank in (rows.src, rows.dst))
        for number, wave in enumerate(_waves(targets, 1)):
            src, dst = sources[wave], targets[wave]
            given = sums_before[src]
            self._require(src[(given == 0) | (given == self.total[rows.first[wave]])])
            self.sums[dst] = self.sums[dst] + given if number else given
            order = orders_before[src]
            self.orders[dst] = _combined(self.orders[dst], order) if number else order
        self.is_merged[sources] = True

    def _require_end(self) -> None:
        """Require that each holder has the sum, and that all of them added in the same order."""
        sums = self.sums.reshape(self.ranks, -1)
        is_holder = (self.holder == EVERY) | (self.holder == np.arange(self.ranks)[:, None])
        self._require(np.flatnonzero(is_holder & (sums != self.total)))
        if self.orders is not None:
            orders = self.orders.reshape(self.ranks, -1)
            first = orders[np.maximum(self.holder, 0), np.arange(self.intervals)]
            self._require(np.flatnonzero(is_holder & (orders != first)))


_Ranges = tuple[Column, Column]
"""(first cells, ends)."""


def _repeated(some: _Ranges) -> Column:
    """A cell that two ranges have in common, if any."""
    order = np.argsort(some[0], kind="stable")
    start, end = some[0][order], some[1][order]
    reached = np.maximum.accumulate(end)[:-1] if len(end) else end
    return start[1:][start[1:] < reached]


def _common(some: _Ranges, others: _Ranges) -> Column:
    """A cell that a range of `others` has in common with one of `some`, if any."""
    if not len(some[0]) or not len(others[0]):
        return some[0][:0]
    order = np.argsort(some[0], kind="stable")
    start, reached = some[0][order], np.maximum.accumulate(some[1][order])
    before = np.searchsorted(start, others[1]) - 1  # the last range that starts before the other one ends
    overlaps = (before >= 0) & (reached[before] > others[0])
    return np.maximum(start[before[overlaps]], others[0][overlaps])


def _windows(values: NDArray[Any], width: int) -> NDArray[Any]:
    """A view: row i has the `width` values from i on."""
    view: NDArray[Any] = sliding_window_view(values, width, writeable=True)
    return view


def _first(wrong: NDArray[np.bool_], start: Column) -> Column:
    """The cell of the first wrong value, if any: row i has the cells from `start[i]` on."""
    if not wrong.any():
        return start[:0]
    row, place = divmod(int(np.argmax(wrong)), wrong.shape[1])
    cell: Column = start[row : row + 1] + place
    return cell


def _same_width(rows: _Rows, cells: int = CELLS) -> Iterator[_Rows]:
    """Divide transfers into those of the same width, in their order, of at most this number of cells."""
    for width in np.unique(rows.width).tolist():
        chosen = np.flatnonzero(rows.width == width)
        at_once = max(1, cells // width)
        for start in range(0, len(chosen), at_once):
            yield rows.among(chosen[start : start + at_once])


def _waves(dst: Column, width: int) -> Iterator[Column]:
    """Divide transfers of this width into those with different cells: the first ones into each cell, and so on."""
    order = np.argsort(dst, kind="stable")
    starts = np.flatnonzero(np.diff(dst[order], prepend=-1))
    number = np.empty(len(dst), np.int64)
    number[order] = np.arange(len(dst)) - np.repeat(starts, np.diff([*starts, len(dst)]))
    for wave in range(int(number.max(initial=-1)) + 1):
        chosen = np.flatnonzero(number == wave)
        if _repeated((dst[chosen], dst[chosen] + width)).size:
            yield from chosen[:, None]  # they overlap in part
        else:
            yield chosen


def _merges_by_cell(merges: _Rows) -> _Rows:
    """Merges of one interval each, with each receiver's own value as a merge from itself, in order of rank."""
    which = np.repeat(np.arange(len(merges)), merges.width)
    within = np.arange(len(which)) - np.repeat(np.cumsum(merges.width) - merges.width, merges.width)
    rows = merges.among(which)
    rows = replace(rows, first=rows.first + within, width=np.ones_like(rows.width))
    own = rows.among(np.unique(np.stack([rows.dst, rows.first]), axis=1, return_index=True)[1])
    own = replace(own, src=own.dst)
    both = (np.concatenate(pair) for pair in zip(vars(rows).values(), vars(own).values(), strict=True))
    rows = _Rows(*both)
    return rows.among(np.lexsort((rows.src, rows.first, rows.dst)))


def _combined(left: Values, right: Values) -> Values:
    """A number for the sum of two expressions in this order (the mixing step of splitmix64)."""
    mixed = left * np.uint64(0x9E3779B97F4A7C15) + right
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return mixed
