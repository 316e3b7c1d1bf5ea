# SPDX-License-Identifier: Apache-2.0
"""Proves that a schedule is an all-reduce: every server ends with every contribution exactly once.

One rule makes sums deterministic and pipelined execution safe without barriers: a REDUCE *moves* a partial
sum. After a REDUCE, the sender has given the range away: it must not add to the range or send it again, and
only a COPY may write there. Only a complete sum may be copied. Therefore each contribution is in exactly one
place until the sum is complete, and a single server completes it. A COPY is written into the receiver's array
without synchronization; this is safe because the sum contains the receiver's own contribution, so the
receiver has finished all its earlier work on that range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.loads import Report, report
from hipsnet.collective.schedule import COPY, ORDER, REDUCE, Schedule, steps
from hipsnet.errors import ScheduleError
from hipsnet.topology import Fabric

Indices = NDArray[np.int64]


def check(schedule: Schedule, fabric: Fabric) -> Report:
    """Return the schedule's port loads on `fabric` after verifying that it is a correct all-reduce.

    Raises ScheduleError naming the first incorrect transfer, or the sum that a rank never receives.
    """
    _check_columns(schedule, fabric)
    sums = _Sums(schedule)
    for rows in steps(schedule):
        sums.apply(rows)
    sums.check_complete()
    return report(schedule, fabric)


def describe(schedule: Schedule, index: int) -> str:
    """Describe one transfer: its number, stage and round, ranks, port, operation and range of elements."""
    t = schedule.transfers[index]
    operation = {COPY: "copy", REDUCE: "reduce"}.get(int(t["op"]), f"operation {t['op']}")
    return (
        f"transfer {index} (stage {t['stage']}, round {t['round']}, thread {t['thread']}, "
        f"rank {t['src']} -> {t['dst']} by port {t['level']}, "
        f"{operation} [{t['offset']}, {t['offset'] + t['length']}))"
    )


def _check_columns(schedule: Schedule, fabric: Fabric) -> None:
    """Check the columns of each transfer, and the order of the transfers."""
    t, ranks = schedule.transfers, schedule.world_size
    ports = len(fabric.servers[0].ports)
    if ranks != len(fabric.servers):
        raise ScheduleError(
            f"the schedule has {ranks} ranks, but {fabric.name} has {len(fabric.servers)} servers"
        )
    keys = np.stack([t[column].astype(np.int64) for column in ORDER])
    change = np.diff(keys, axis=1, prepend=keys[:, :1])
    first_change = np.argmax(change != 0, axis=0)
    backwards = np.take_along_axis(change, first_change[None, :], 0)[0] < 0
    for wrong, what in (
        ((t["src"] >= ranks) | (t["dst"] >= ranks), f"allowed: ranks 0 to {ranks - 1}"),
        (t["src"] == t["dst"], "the source and the destination are the same rank"),
        (t["thread"] >= schedule.threads, f"allowed: threads 0 to {schedule.threads - 1}"),
        (t["level"] >= ports, f"allowed: ports 0 to {ports - 1}"),
        (~np.isin(t["op"], (COPY, REDUCE)), "allowed: copy (0) or reduce (1)"),
        (t["length"] <= 0, "the transfer has no elements"),
        (
            (t["offset"] < 0) | (t["offset"] + t["length"] > schedule.count),
            f"the range exceeds the vector of {schedule.count} elements",
        ),
        (backwards, f"the transfers are not sorted by {', '.join(ORDER)}"),
    ):
        if wrong.any():
            raise ScheduleError(f"{describe(schedule, int(np.argmax(wrong)))}: {what}")


@dataclass(frozen=True, eq=False)
class _Step:
    """The transfers of one (stage, round), split into intervals: indices of the sender's and receiver's entries."""

    row: Indices
    src: Indices
    dst: Indices
    reduces: NDArray[np.bool_]


Fault = tuple[NDArray[np.bool_], Indices, str]
"""(mask of the incorrect lines of a step, index of each line's entry, message with fields of `_Sums.explain`)."""


class _Sums:
    """The contributions that each server holds of each interval: index = interval * ranks + rank.

    An interval is the range between two neighbouring cuts. `held` counts contributions: 0 where the range
    was given away, by transfer `giver`.
    """

    def __init__(self, schedule: Schedule) -> None:
        t = schedule.transfers
        self.schedule, self.ranks = schedule, schedule.world_size
        self.cuts = np.unique(np.concatenate([t["offset"], t["offset"] + t["length"], [0, schedule.count]]))
        size = (len(self.cuts) - 1) * self.ranks
        self.held = np.ones(size, np.int64)
        self.giver, self.mark = np.full(size, -1), np.full(size, -1)

    def apply(self, rows: range) -> None:
        """Apply the transfers of one (stage, round); all of them read the state before that round."""
        step = self._step(np.arange(rows.start, rows.stop))
        for wrong, place, what in self._faults(step):
            if wrong.any():
                line = int(np.argmax(wrong))
                what = self.explain(what, int(place[line]))
                raise ScheduleError(f"{describe(self.schedule, int(step.row[line]))} {what}")
        src, dst, moves = step.src, step.dst, step.reduces
        np.add.at(self.held, dst[moves], self.held[src[moves]])
        self.held[src[moves]] = 0
        self.giver[src[moves]] = step.row[moves]
        self.held[dst[~moves]] = self.ranks

    def explain(self, what: str, place: int) -> str:
        """Fill in the fields of a message: {rank}, {giver}, {held}, {all}, {missing}, {range}."""
        interval, rank = divmod(place, self.ranks)
        there = self.held[interval * self.ranks : (interval + 1) * self.ranks]
        missing = [str(other) for other in np.flatnonzero(there) if other != rank]
        return what.format(
            rank=f"rank {rank}",
            giver=f"by transfer {self.giver[place]}" if self.giver[place] >= 0 else "",
            held=self.held[place],
            all=self.ranks,
            missing=f"the rest is still at rank {', '.join(missing)}",
            range=f"[{self.cuts[interval]}, {self.cuts[interval + 1]})",
        )

    def check_complete(self) -> None:
        """Raise ScheduleError if a server lacks a sum."""
        wrong = np.flatnonzero(self.held != self.ranks)
        if wrong.size:
            place = int(wrong[0])
            what = (
                "no transfer brings the sum of {range} to {rank}, which gave it away {giver}"
                if self.held[place] == 0
                else "{rank} ends with {held} of {all} contributions to {range}: {missing}"
            )
            raise ScheduleError(f"{self.schedule.algorithm}: {self.explain(what, place)}")

    def _step(self, rows: Indices) -> _Step:
        t = self.schedule.transfers[rows]
        first = np.searchsorted(self.cuts, t["offset"])
        counts = np.searchsorted(self.cuts, t["offset"] + t["length"]) - first
        which = np.repeat(np.arange(len(rows)), counts)
        interval = np.arange(len(which)) + np.repeat(first - np.cumsum(counts) + counts, counts)
        src, dst = (interval * self.ranks + t[end][which] for end in ("src", "dst"))
        return _Step(rows[which], src, dst, t["op"][which] == REDUCE)

    def _faults(self, step: _Step) -> Iterator[Fault]:
        """Yield faults of reads, then of writes: an earlier fault is closer to the cause."""
        src, dst, moves = step.src, step.dst, step.reduces
        sent, there = self.held[src], self.held[dst]
        self.mark[dst] = step.row
        yield (
            self.mark[src] >= step.row[0],
            src,
            "reads {range} at {rank}, which another transfer of the same round writes",
        )
        yield sent == 0, src, "sends {range}, which {rank} gave away {giver}"
        yield ~moves & (sent < self.ranks), src, "copies {held} of {all} contributions to {range}: {missing}"
        yield (
            moves & (there == 0),
            dst,
            "adds to {range}, which {rank} gave away too early, {giver}",
        )
        yield ~moves & (there == self.ranks), dst, "writes {range}, but {rank} already has its sum"
        yield ~moves & (there > 0), dst, "overwrites {held} of {all} contributions to {range} at {rank}"
        yield self._repeated(src, moves), src, "sends {range} of {rank} twice in a round"
        yield self._repeated(dst, ~moves), dst, "writes {range} of {rank} twice in a round"

    def _repeated(self, places: Indices, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the `places` selected by `among` that occurred before."""
        lines = np.flatnonzero(among)
        second = np.ones(len(places), np.bool_)
        second[lines[np.unique(places[lines], return_index=True)[1]]] = False
        return second & among
