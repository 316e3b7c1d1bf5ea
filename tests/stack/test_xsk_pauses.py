# SPDX-License-Identifier: Apache-2.0
"""Pauses on the wire: an endpoint that sends and honours them, and a server that holds frames in transit."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hipsnet.node.forwarding import frames_by_reason, read_counters
from hipsnet.node.pauses import COUNTERS, read_pauses
from hipsnet.stack.building import FOLDER
from hipsnet.stack.ports.loop import Stack
from tests.kernel.frames import pfc
from tests.stack.line import M_PORTS, Line
from tests.stack.passing import ROCE_DSCP, roce_frame, working
from tests.stack.sockets import Socket, memory, socket

PRIORITY = 3
RATE = 20_000_000  # an XOFF of 65535 quanta lasts 1.7 s
XOFF, XON = pfc(1 << PRIORITY), pfc(1 << PRIORITY, (0,) * 8)


@contextmanager
def row_at_work(row: Line, **fields: object) -> Iterator[tuple[Stack, Socket, Socket]]:
    """The middle's stack, and a socket at each end."""
    with (
        memory() as near_memory,
        memory() as far_memory,
        socket(row.a, near_memory) as near,
        socket(row.b, far_memory) as far,
        working(row.middle, row.ports(rate_bps=RATE, priority=PRIORITY, **fields)) as stack,
    ):
        yield stack, near, far


def through(row: Line, number: int, dscp: int = ROCE_DSCP, size: int = 1000) -> bytes:
    """A frame from a for b, as it leaves a."""
    payload = struct.pack("!I", number) + bytes(size)
    return roce_frame((row.a.address, row.b.address), (row.a.mac, M_PORTS[0][1]), payload, dscp)


def numbers(frames: list[bytes]) -> list[int]:
    return [int(struct.unpack_from("!I", frame, 42)[0]) for frame in frames]


def until(holds: Callable[[], bool], bound_s: float = 5) -> None:
    end = time.monotonic() + bound_s
    while not holds():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.002)


def reasons(row: Line) -> dict[str, int]:
    return frames_by_reason(read_counters(row.fabric, "m"))


def moved(row: Line, before: dict[str, int], name: str) -> int:
    return reasons(row).get(name, 0) - before.get(name, 0)


def test_the_counters_are_those_of_the_header() -> None:
    assert tuple(re.findall(r"COUNTER\((\w+),", (FOLDER / "cable/pfc.h").read_text())) == COUNTERS


def test_a_path_without_a_pause_belongs_to_the_program(row: Line) -> None:
    with row_at_work(row) as (_, near, far):
        before = reasons(row)
        near.send(*(through(row, number) for number in range(100)))
        assert numbers(far.await_frames(100)) == list(range(100))
        assert moved(row, before, "forwarded") == 100
        assert moved(row, before, "buffered") == 0


def test_frames_of_a_paused_path_are_held_in_order_and_others_pass(row: Line) -> None:
    with row_at_work(row) as (stack, near, far):
        before, pauses = reasons(row), read_pauses(row.fabric, "m")
        far.send(XOFF)
        until(lambda: moved(row, before, "local_pfc") == 1)
        near.send(*(through(row, number) for number in range(200)))
        near.send(*(through(row, number, dscp=0) for number in range(1000, 1050)))
        # Frames of other priorities arrive, although sent later; no paused frame does.
        assert numbers(far.await_frames(50)) == list(range(1000, 1050))
        assert moved(row, before, "buffered") == 200
        far.send(XON)
        assert numbers(far.await_frames(200)) == list(range(200))
        until(lambda: stack.counters(0)["transit_frames"] == 200)
        near.send(*(through(row, number) for number in range(300, 310)))
        assert numbers(far.await_frames(10)) == list(range(300, 310))
        assert moved(row, before, "buffered") == 200, "the fast way is open again"
        counted = read_pauses(row.fabric, "m")[1][PRIORITY]
        assert counted["rx_pause_frames"] - pauses[1][PRIORITY]["rx_pause_frames"] == 2
        assert counted["rx_pause_transitions"] - pauses[1][PRIORITY]["rx_pause_transitions"] == 1
        assert counted["rx_pause_us"] > pauses[1][PRIORITY]["rx_pause_us"]
        # Their ingress cable was never paused: the cascade ends here.
        assert read_pauses(row.fabric, "m")[0]["tx_pause_frames"].sum() == pauses[0]["tx_pause_frames"].sum()


def test_the_endpoint_goes_by_the_map_of_dscps_too(row: Line) -> None:
    """DSCP 10, of class 1 by its bits, has the priority 4 here."""
    with row_at_work(row) as (stack, near, far):
        before = reasons(row)
        far.send(pfc(1 << 4), pfc(1 << 1))
        until(lambda: moved(row, before, "local_pfc") == 2)
        near.send(*(through(row, number, dscp=10) for number in range(20)))
        until(lambda: stack.counters(0)["transit_frames"] == 20)
        far.send(pfc(1 << 1, (0,) * 8))
        near.send(*(through(row, number) for number in range(100, 110)))
        assert numbers(far.await_frames(10)) == list(range(100, 110)), "only those of DSCP 10 wait"
        far.send(pfc(1 << 4, (0,) * 8))
        assert numbers(far.await_frames(20)) == list(range(20))
        assert (moved(row, before, "buffered"), moved(row, before, "forwarded")) == (20, 10)


def test_a_pause_expires(row: Line) -> None:
    with row_at_work(row) as (_, near, far):
        before = reasons(row)
        began = time.monotonic()
        far.send(XOFF)
        until(lambda: moved(row, before, "local_pfc") == 1)
        near.send(*(through(row, number) for number in range(20)))
        assert numbers(far.await_frames(20)) == list(range(20))
        assert time.monotonic() - began >= 65535 * 512 / RATE


def test_the_ingress_is_paused_past_its_threshold_only(row: Line) -> None:
    with row_at_work(row, xoff_chunks=100, xon_chunks=20) as (stack, near, far):
        before = reasons(row)
        far.send(XOFF)
        until(lambda: moved(row, before, "local_pfc") == 1)
        near.send(*(through(row, number) for number in range(90)))
        until(lambda: stack.counters(0)["transit_frames"] == 90)
        assert near.take() == []
        near.send(*(through(row, number) for number in range(90, 150)))
        (stop,) = near.await_frames(1)
        assert (stop[:6], stop[12:18]) == (XOFF[:6], XOFF[12:18])
        assert struct.unpack_from("!8H", stop, 18)[PRIORITY] == 0xFFFF
        far.send(XON)
        assert numbers(far.await_frames(150)) == list(range(150))
        go = near.await_frames(1)[-1]
        assert struct.unpack_from("!8H", go, 18)[PRIORITY] == 0
        # Refreshed, if at all, before the other end had run out of the first.
        assert read_pauses(row.fabric, "m")[0][PRIORITY]["tx_pause_frames"] >= 2


def test_a_frozen_port_pauses_its_peer_all_the_while(row: Line) -> None:
    with row_at_work(row, xoff_chunks=50, xon_chunks=5) as (stack, near, _):
        stack.freeze(0)
        counted = read_pauses(row.fabric, "m")[0][PRIORITY]
        near.send(*(XOFF for _ in range(60)))  # whatever is for the endpoint
        heard = near.await_frames(3)
        assert all(struct.unpack_from("!8H", frame, 18)[PRIORITY] == 0xFFFF for frame in heard[:3])
        stack.freeze(0, False)
        until(lambda: stack.counters(0)["rx_pauses"] == 60)
        until(lambda: any(struct.unpack_from("!8H", f, 18)[PRIORITY] == 0 for f in near.take()))
        after = read_pauses(row.fabric, "m")[0][PRIORITY]
        assert after["tx_pause_transitions"] - counted["tx_pause_transitions"] == 1
        assert after["tx_pause_us"] > counted["tx_pause_us"]
