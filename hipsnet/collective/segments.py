# SPDX-License-Identifier: Apache-2.0
"""A plan as objects, for the Python executor."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hipsnet.engine.plans import PlanArrays, Rows


@dataclass(frozen=True, slots=True)
class Segment:
    """Elements [start, stop) sent over one connection; `number` counts the segments in that direction."""

    index: int
    connection: int
    number: int
    start: int
    stop: int
    sends: bool
    reduces: bool
    thread: int
    stage: int


@dataclass(frozen=True)
class Plan:
    """One rank's segments: segment i depends on `waits[i]` others; the segments `releases[i]` depend on it.

    No segment is longer than `chunk` elements.
    """

    count: int
    chunk: int
    segments: tuple[Segment, ...]
    waits: tuple[int, ...]
    releases: tuple[tuple[int, ...], ...]
    sends: tuple[tuple[Segment, ...], ...]  # by connection, in the order of sending
    receives: tuple[tuple[Segment, ...], ...]  # by connection, in the order of arrival


def as_objects(plan: PlanArrays) -> Plan:
    segments = tuple(
        Segment(
            index,
            int(row["connection"]),
            int(row["number"]),
            int(row["start"]),
            int(row["start"]) + int(row["length"]),
            bool(row["sends"]),
            bool(row["reduces"]),
            int(row["thread"]),
            int(row["stage"]),
        )
        for index, row in enumerate(plan.segments)
    )
    releases, sends, receives = (_lists(rows) for rows in (plan.releases, plan.sends, plan.receives))
    return Plan(
        plan.count,
        plan.longest,
        segments,
        tuple(plan.waits.tolist()),
        releases,
        tuple(tuple(segments[i] for i in row) for row in sends),
        tuple(tuple(segments[i] for i in row) for row in receives),
    )


def _lists(rows: Rows) -> tuple[tuple[int, ...], ...]:
    first, numbers = (array.tolist() for array in rows)
    return tuple(tuple(numbers[a:b]) for a, b in pairwise(first))
