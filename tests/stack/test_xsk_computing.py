# SPDX-License-Identifier: Apache-2.0
"""A process that computes between two polls: frames in transit pass, and frames it holds expire."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import kernel
from hipsnet.node import namespace
from hipsnet.node.pauses import mapped_pauses, read_pauses
from hipsnet.stack.ports.loop import Stack
from tests.kernel.frames import pfc
from tests.stack.line import Line
from tests.stack.sockets import Socket, memory, socket
from tests.stack.test_xsk_pauses import PRIORITY, RATE, XOFF, XON, moved, numbers, reasons, through, until

RECENT_S = kernel.constant("POLL_RECENT_NS") / 1e9
LIFETIME_S = 1.0  # TRANSIT_LIFETIME_NS of ports/transit.h
SHORT = pfc(1 << PRIORITY, (2600,) * 8)
SHORT_US = 2600 * 512 * 1_000_000 // RATE  # 67 ms


@contextmanager
def computing(row: Line) -> Iterator[tuple[Stack, Socket, Socket]]:
    """The middle's stack, which only the test polls, and a socket at each end."""
    with (
        memory() as near_memory,
        memory() as far_memory,
        socket(row.a, near_memory) as near,
        socket(row.b, far_memory) as far,
    ):
        stack = Stack()
        try:
            with namespace.inside(row.middle):
                stack.open_ports(row.ports(rate_bps=RATE, priority=PRIORITY))
            list(stack.poll(0.001))
            yield stack, near, far
        finally:
            stack.close()


def pause(row: Line, far: Socket, frame: bytes) -> None:
    before = reasons(row)
    far.send(frame)
    until(lambda: moved(row, before, "local_pfc") == 1)


def poll_seems(row: Line, ago_s: float) -> None:
    """Set the middle's last poll to `ago_s` ago, independent of this machine's speed."""
    with mapped_pauses(row.fabric, "m") as rows:
        rows["polled_ns"] = int((time.monotonic() - ago_s) * 1e9)


def polls_until(row: Line) -> float:
    """Until when the middle sleeps in its poll; the time of its last poll if it does not."""
    with mapped_pauses(row.fabric, "m") as rows:
        return float(rows["polled_ns"][1]) / 1e9


def test_a_pause_does_not_stop_the_neighbours_of_a_process_that_computes(row: Line) -> None:
    with computing(row) as (stack, near, far):
        time.sleep(RECENT_S)
        before = reasons(row)
        pause(row, far, SHORT)
        near.send(*(through(row, number) for number in range(200)))
        assert numbers(far.await_frames(200)) == list(range(200))
        assert (moved(row, before, "forwarded"), moved(row, before, "buffered")) == (200, 0)
        assert stack.counters(0)["transit_frames"] == 0


def test_frames_held_when_it_begins_to_compute_are_overtaken_and_leave_when_it_polls(row: Line) -> None:
    with computing(row) as (stack, near, far):
        before = reasons(row)
        poll_seems(row, -5)
        pause(row, far, XOFF)
        near.send(*(through(row, number) for number in range(20)))
        until(lambda: moved(row, before, "buffered") == 20)
        poll_seems(row, RECENT_S)
        list(stack.poll(0))
        began = time.monotonic()
        poll_seems(row, RECENT_S)
        near.send(*(through(row, number) for number in range(20, 220)))
        assert numbers(far.await_frames(200)) == list(range(20, 220))
        away_s = time.monotonic() - began
        end = time.monotonic() + 5
        while stack.counters(1)["tx_frames"] < 20 and time.monotonic() < end:
            list(stack.poll(0.01))
        late = numbers(far.take())
        assert late == list(range(20)) or away_s > LIFETIME_S
        list(stack.poll(0.05))
        before = reasons(row)
        near.send(*(through(row, number) for number in range(300, 310)))
        assert numbers(far.await_frames(10)) == list(range(300, 310))
        assert moved(row, before, "forwarded") == 10, "the way is open again"


def test_frames_that_outlive_their_lifetime_are_dropped(row: Line) -> None:
    """Some wait in the stack, some in the socket."""
    with computing(row) as (stack, near, far):
        before = reasons(row)
        poll_seems(row, -5)
        pause(row, far, XOFF)
        near.send(*(through(row, number) for number in range(20)))
        until(lambda: moved(row, before, "buffered") == 20)
        until(lambda: not list(stack.poll(0.001)) and stack.counters(0)["transit_frames"] == 20)
        poll_seems(row, -5)
        near.send(*(through(row, number) for number in range(20, 50)))
        until(lambda: moved(row, before, "buffered") == 50)
        time.sleep(LIFETIME_S + 0.1)
        list(stack.poll(0.001))
        assert stack.counters(0)["transit_dropped"] == 50
        list(stack.poll(1))  # the pause runs out
        before = reasons(row)
        near.send(*(through(row, number) for number in range(100, 110)))
        assert numbers(far.await_frames(10)) == list(range(100, 110))
        assert moved(row, before, "forwarded") == 10, "the way is open again"


def test_a_process_that_sleeps_until_a_frame_comes_polls(row: Line) -> None:
    """For longer than a poll is recent; the pause wakes it, and then its neighbours' frames are held."""
    ends = threading.Event()

    def poll() -> None:
        while not ends.is_set():
            list(stack.poll(4 * RECENT_S))

    with computing(row) as (stack, near, far):
        before = reasons(row)
        thread = threading.Thread(target=poll)
        thread.start()
        try:
            time.sleep(2 * RECENT_S)
            until(lambda: polls_until(row) > time.monotonic())
            pause(row, far, XOFF)
            near.send(*(through(row, number) for number in range(5)))
            until(lambda: moved(row, before, "buffered") == 5)
            far.send(XON)
            assert numbers(far.await_frames(5)) == list(range(5))
        finally:
            ends.set()
            thread.join()


def test_a_pause_runs_from_its_arrival_however_late_it_is_read(row: Line) -> None:
    with computing(row) as (stack, _, far):
        counted = read_pauses(row.fabric, "m")[1][PRIORITY]
        pause(row, far, SHORT)
        time.sleep(0.1)  # it has run out
        list(stack.poll(0.001))
        after = read_pauses(row.fabric, "m")[1][PRIORITY]
        assert after["rx_pause_frames"] == counted["rx_pause_frames"] + 1
        list(stack.poll(0.1))
        lasted_us = read_pauses(row.fabric, "m")[1][PRIORITY]["rx_pause_us"] - counted["rx_pause_us"]
        assert lasted_us == SHORT_US
