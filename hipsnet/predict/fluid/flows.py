# SPDX-License-Identifier: Apache-2.0
"""A running fluid simulation: lanes, the links that they share, and segments that wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.errors import CapabilityError, InputError
from hipsnet.predict.fluid.library import library, pointer
from hipsnet.predict.network import Rows

EVENTS_PER_TURN = 50_000
"""Segments that are sent between two reports of progress, which is also when an interrupt is noticed."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """Lanes by number: the links that each passes, the time after which what it sent arrives, and its start.

    `capacity_Bps[link]` is in bytes/s, `latency_s[lane]` and `start_s[lane]` in seconds.
    """

    capacity_Bps: NDArray[np.float64]
    routes: Rows
    latency_s: NDArray[np.float64]
    start_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.latency_s)


@dataclass(frozen=True, eq=False)
class Program:
    """Segments in C memory, released with this object: `first_segment[lane]` and one more element."""

    handle: Any
    first_segment: NDArray[np.uint32]

    @property
    def segments(self) -> int:
        """How many there are."""
        return int(self.handle.segments)


@dataclass(frozen=True, eq=False)
class Finished:
    """The end of a simulation: `time_s` when the last segment was applied, and `applied_s` of each if recorded."""

    time_s: float
    applied_s: NDArray[np.float64] | None = field(default=None, repr=False)


class Stuck(InputError):
    """No segment can move; `lane` is one that waits for a link without capacity."""

    def __init__(self, lane: int) -> None:
        super().__init__("a link without capacity stops the simulation")
        self.lane = lane


@dataclass(frozen=True, eq=False)
class Transfers:
    """Transfers in the order of the schedule: columns of equal length, and where they may be cut.

    `step` is the number of each transfer's (stage, round), `begin` and `end` are indices of `cut`, which holds
    ascending elements of the vector. `lane` is the number of the lane that carries it.
    """

    ranks: int
    src: NDArray[np.uint32]
    dst: NDArray[np.uint32]
    step: NDArray[np.uint32]
    begin: NDArray[np.uint32]
    end: NDArray[np.uint32]
    lane: NDArray[np.int64]
    cut: NDArray[np.uint64]


def independent(elements: NDArray[np.uint32], lanes: int) -> Program:
    """Return a program in which lane i has one segment of `elements[i]`, and waits for nothing.

    Lanes behind the last element have no segment: they are background flows, which never end.
    """
    count = len(elements)
    row = np.arange(count, dtype=np.uint32)
    cut = np.concatenate([[0], np.cumsum(elements, dtype=np.uint64)]).astype(np.uint64)
    step = np.zeros(count, np.uint32)
    return compiled(
        Transfers(count, row, row, step, row, row + np.uint32(1), row.astype(np.int64), cut),
        int(elements.max(initial=1)),
        lanes,
    )


def compiled(transfers: Transfers, chunk: int, lanes: int) -> Program:
    """Return the segments of all ranks, at most `chunk` elements each, and what each waits for.

    Raises InputError if there are too many, CapabilityError if they do not fit into memory.
    """
    ffi, lib = library()
    order = np.argsort(transfers.lane, kind="stable").astype(np.uint32)
    given = ffi.new("struct program_input *")
    given.ranks, given.transfers, given.cuts = transfers.ranks, len(order), len(transfers.cut)
    given.cut, given.chunk = pointer(ffi, transfers.cut), chunk
    for name in ("src", "dst", "step", "begin", "end"):
        setattr(given, name, pointer(ffi, getattr(transfers, name)))
    given.order = pointer(ffi, order)
    if len(order) and not lib.program_count(given):
        raise InputError(
            "the simulation would have 2^31 segments or more; use larger chunks, or fewer servers"
        )
    handle = _owned(lib.program_open(given), lib.program_close)
    first = np.zeros(len(order) + 1, np.uint32)
    lib.program_firsts(given, pointer(ffi, first))
    starts = np.searchsorted(transfers.lane[order], np.arange(lanes + 1))
    return Program(handle, np.append(first[order], first[-1])[starts])


def _owned(handle: Any, close: Callable[[Any], None]) -> Any:
    ffi, _ = library()
    if not handle:
        raise CapabilityError("the simulation does not fit into this machine's memory; use fewer servers")
    return ffi.gc(handle, close)


def run(
    lanes: Lanes,
    program: Program,
    item_bytes: float = 1.0,
    quantum_s: float = 0.0,
    record: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Finished:
    """Simulate to the end. `progress` gets the segments applied so far, and their number.

    Events within `quantum_s` of each other count as simultaneous: a result is late by at most this much for each
    segment that waits for another one. Raises Stuck.
    """
    ffi, lib = library()
    first, route = (np.ascontiguousarray(column, np.uint32) for column in lanes.routes)
    applied = np.zeros(program.segments) if record else None
    given = ffi.new("struct fluid_input *")
    given.network.lanes, given.network.links = len(lanes), len(lanes.capacity_Bps)
    given.network.capacity = pointer(ffi, lanes.capacity_Bps)
    given.network.first_link, given.network.route = pointer(ffi, first), pointer(ffi, route)
    given.program, given.first_segment = program.handle, pointer(ffi, program.first_segment)
    given.latency_s, given.start_s = pointer(ffi, lanes.latency_s), pointer(ffi, lanes.start_s)
    given.item_bytes, given.quantum_s = item_bytes, quantum_s
    if applied is not None:
        given.applied_s = pointer(ffi, applied)
    fluid = _owned(lib.fluid_open(given), lib.fluid_close)
    while (state := lib.fluid_run(fluid, EVENTS_PER_TURN)) == lib.FLUID_GOES_ON:
        progress(lib.fluid_applied(fluid), program.segments)
    if state == lib.FLUID_STUCK:
        raise Stuck(_stopped(fluid, len(lanes)))
    return Finished(lib.fluid_now(fluid) if program.segments else 0.0, applied)


def _stopped(fluid: Any, lanes: int) -> int:
    """Return a lane that has begun a segment, but has no rate."""
    _, lib = library()
    waiting = [lane for lane in range(lanes) if lib.fluid_waiting(fluid, lane) != lib.FLUID_NONE]
    return next((lane for lane in waiting if lib.fluid_is_stopped(fluid, lane)), waiting[0])
