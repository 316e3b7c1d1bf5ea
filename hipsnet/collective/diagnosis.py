# SPDX-License-Identifier: Apache-2.0
"""Explains why a schedule is wrong, by replaying the transfers of one element."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from hipsnet.collective.collectives import EVERY
from hipsnet.collective.schedule import COPY, MERGE, OPERATIONS, REDUCE, Schedule


def describe(schedule: Schedule, index: int) -> str:
    """Describe one transfer: its number, stage and round, ranks, port, operation and range of elements."""
    t = schedule.transfers[index]
    operation = OPERATIONS[t["op"]] if t["op"] < len(OPERATIONS) else f"operation {t['op']}"
    return (
        f"transfer {index} (stage {t['stage']}, round {t['round']}, thread {t['thread']}, "
        f"rank {t['src']} -> {t['dst']} by port {t['level']}, "
        f"{operation} [{t['offset']}, {t['offset'] + t['length']}))"
    )


def explain(schedule: Schedule, element: int) -> str:
    """Return what is wrong at one element: the first incorrect transfer, or the sum that a rank never receives."""
    t = schedule.transfers
    covers = (t["offset"] <= element) & (element < t["offset"] + t["length"])
    one = _Element(schedule, element)
    rows = [_Row(int(i), int(t["op"][i]), int(t["src"][i]), int(t["dst"][i])) for i in np.flatnonzero(covers)]
    for _, step in groupby(rows, key=lambda row: (t["stage"][row.index], t["round"][row.index])):
        transfers = list(step)
        for row, fault in one.faults(transfers):
            return f"{describe(schedule, row.index)} {fault}"
        one.apply(transfers)
    return f"{schedule.algorithm}: {one.fault_at_the_end()}"


class _Row:
    """A transfer: its number, operation, source and destination."""

    def __init__(self, index: int, op: int, src: int, dst: int) -> None:
        self.index, self.op, self.src, self.dst = index, op, src, dst


class _Element:
    """What each rank holds of one element: a set of contributions, as bits."""

    def __init__(self, schedule: Schedule, element: int) -> None:
        ranks = schedule.world_size
        terms = schedule.collective.terms(schedule.count, ranks)
        part = int(np.searchsorted(terms.edges, element, side="right")) - 1
        contributor, holder = int(terms.contributor[part]), int(terms.holder[part])
        self._held = [1 << rank if contributor in (EVERY, rank) else 0 for rank in range(ranks)]
        self._holders = list(range(ranks)) if holder == EVERY else [holder]
        self._all = sum(self._held)
        self._orders: list[object] = list(range(ranks))
        self._giver: dict[int, int] = {}
        self._merger: dict[int, int] = {}
        t = schedule.transfers
        cuts = np.concatenate([t["offset"], t["offset"] + t["length"], terms.edges])
        self._range = f"[{cuts[cuts <= element].max()}, {cuts[cuts > element].min()})"

    def faults(self, rows: list[_Row]) -> Iterator[tuple[_Row, str]]:
        """Yield faults of reads, then of writes: an earlier fault is closer to the cause."""
        held, everything = self._held, self._all
        copies, moves, merges = ([row for row in rows if row.op == op] for op in (COPY, REDUCE, MERGE))
        changed = {row.dst for row in rows if row.op != MERGE}
        given = {row.src for row in moves}
        merged = {row.dst for row in merges}
        for row in rows:
            if row.src in changed or (row.op != MERGE and row.src in merged):
                yield (
                    row,
                    f"reads {self._range} at rank {row.src}, which another transfer of the same round writes",
                )
        for row in rows:
            if not held[row.src]:
                yield row, f"sends {self._range}, {self._why_empty(row.src)}"
        for row in copies:
            if held[row.src] != everything:
                yield row, f"copies {self._some(row.src)} to {self._range}: {self._missing(row.src)}"
        for row in moves + merges:
            if not held[row.dst]:
                yield row, f"adds to {self._range}, {self._why_empty(row.dst, ' too early')}"
        for row in copies:
            if held[row.dst] == everything:
                yield row, f"writes {self._range}, but rank {row.dst} already has its sum"
            if held[row.dst]:
                yield row, f"overwrites {self._some(row.dst)} to {self._range} at rank {row.dst}"
        for row in moves:
            if row.src in self._merger:
                merger = self._merger[row.src]
                yield row, f"gives {self._range} away, which rank {row.src} has merged by transfer {merger}"
        for row in merges:
            if {row.src, row.dst} & given or row.dst in changed:
                yield row, f"merges {self._range}, which another transfer of the same round changes"
        yield from self._repeated(moves, "src", "sends {} of rank {} twice in a round")
        yield from self._repeated(copies, "dst", "writes {} of rank {} twice in a round")
        yield from self._doubled(moves + merges)

    def _repeated(self, rows: list[_Row], end: str, what: str) -> Iterator[tuple[_Row, str]]:
        seen = set()
        for row in rows:
            rank = getattr(row, end)
            if rank in seen:
                yield row, what.format(self._range, rank)
            seen.add(rank)

    def _doubled(self, rows: list[_Row]) -> Iterator[tuple[_Row, str]]:
        """Additions of a contribution that is already there."""
        there: dict[int, int] = {}
        for row in rows:
            before = there.get(row.dst, self._held[row.dst])
            if both := before & self._held[row.src]:
                rank = both.bit_length() - 1
                yield row, f"adds the contribution of rank {rank} to {self._range} of rank {row.dst} again"
            there[row.dst] = before | self._held[row.src]

    def apply(self, rows: list[_Row]) -> None:
        """Apply the transfers of one round, which have no faults."""
        before, orders = list(self._held), list(self._orders)
        for row in rows:
            self._held[row.dst] = before[row.src] | (0 if row.op == COPY else self._held[row.dst])
            if row.op == COPY:
                self._orders[row.dst] = orders[row.src]
            elif row.op == REDUCE:
                self._orders[row.dst] = (self._orders[row.dst], orders[row.src])
                self._held[row.src], self._giver[row.src] = 0, row.index
            else:
                self._merger |= {row.src: row.index, row.dst: row.index}
        for dst in {row.dst for row in rows if row.op == MERGE}:
            first, *others = sorted({dst, *(row.src for row in rows if row.op == MERGE and row.dst == dst)})
            order = orders[first]
            for other in others:
                order = (order, orders[other])
            self._orders[dst] = order

    def fault_at_the_end(self) -> str:
        """The sum that a rank lacks."""
        for rank in self._holders:
            if not self._held[rank]:
                return f"no transfer brings the sum of {self._range} to rank {rank}{self._given_away(rank)}"
            if self._held[rank] != self._all:
                return f"rank {rank} ends with {self._some(rank)} to {self._range}: {self._missing(rank)}"
        for rank in self._holders[1:]:
            if self._orders[rank] != self._orders[self._holders[0]]:
                first = self._holders[0]
                return f"ranks {first} and {rank} add the contributions to {self._range} in different orders"
        return f"the sum of {self._range} is wrong"

    def _some(self, rank: int) -> str:
        return f"{self._held[rank].bit_count()} of {self._all.bit_count()} contributions"

    def _missing(self, rank: int) -> str:
        others = [str(other) for other, held in enumerate(self._held) if held and other != rank]
        return f"the rest is still at rank {', '.join(others)}"

    def _given_away(self, rank: int) -> str:
        return f", which gave it away by transfer {self._giver[rank]}" if rank in self._giver else ""

    def _why_empty(self, rank: int, how: str = "") -> str:
        if rank in self._giver:
            return f"which rank {rank} gave away{how + ',' if how else ''} by transfer {self._giver[rank]}"
        return f"of which rank {rank} has nothing"
