# SPDX-License-Identifier: Apache-2.0
"""The watchdog in the forwarding program, on real clocks: detection, action and restoration."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import pytest

import kernel
from hipsnet.node import bpf, namespace, pins
from hipsnet.node.forwarding import frames_by_reason, opened_map, port_key, read_counters
from hipsnet.node.pauses import mapped_pauses
from hipsnet.node.storms import Storm, has_watchdog, read_storms, set_watchdog
from hipsnet.node.testrun import run_frame
from hipsnet.node.watchdog import Action, Watchdog
from hipsnet.topology.kinds import BCube, FatTree, LeafSpine, Torus
from tests.kernel.frames import PORT2, ethernet, ipv4, pfc
from tests.kernel.rig import Rig
from tests.kernel.sockets import endpoint

FAR = "10.1.9.9"  # leaves by port 1
PRIORITY = 3
RATE = 20_000_000  # an XOFF lasts 1.7 s
DETECT_MS, RESTORE_MS = 400, 200
XOFF, XON = pfc(1 << PRIORITY), pfc(1 << PRIORITY, (0,) * 8)
PAUSED = ethernet(ipv4(FAR, tos=26 << 2))
OTHERS = ethernet(ipv4(FAR, tos=0))
"""A frame of priority 0, which is never paused."""


@contextmanager
def watched(router: Rig, action: Action) -> Iterator[int]:
    """Enable the watchdog on the router; yield the number of earlier storms."""
    watchdog = Watchdog(DETECT_MS, RESTORE_MS, action, RATE)
    before = sum(storm.number for storm in read_storms(router.fabric, router.node))
    assert not has_watchdog(router.fabric, router.node, watchdog)
    set_watchdog(router.fabric, router.node, watchdog)
    try:
        assert has_watchdog(router.fabric, router.node, watchdog)
        yield before
    finally:
        router.run(XON, port=1)
        time.sleep(RESTORE_MS / 1e3)
        router.run(PAUSED)
        set_watchdog(router.fabric, router.node, None)


def reason(router: Rig, frame: bytes, port: int = 0) -> str:
    (found,) = router.counted(frame, port)[2]
    return found


def storm(router: Rig) -> Storm:
    (found,) = read_storms(router.fabric, router.node)
    return found


@pytest.mark.parametrize("action", ["drop", "forward", "alert"])
def test_a_storm_and_its_end_are_detected_without_a_process(router: Rig, action: Action) -> None:
    after = "drop_storm" if action == "drop" else "forwarded"
    with watched(router, action) as before:
        assert reason(router, XOFF, port=1) == "drop_pfc"
        assert (
            reason(router, PAUSED) == "forwarded"
        )  # not paused for that long, and there is no endpoint to hold it
        time.sleep(DETECT_MS / 1e3)
        assert reason(router, OTHERS) == "forwarded"
        assert sum(found.number for found in read_storms(router.fabric, router.node)) == before
        assert reason(router, PAUSED) == after
        assert reason(router, ethernet(ipv4(FAR, tos=26 << 2), to=PORT2), port=2) == after
        assert reason(router, OTHERS) == "forwarded"
        seen = storm(router)
        assert (seen.port, seen.priority, seen.action, seen.number) == (1, PRIORITY, action, before + 1)
        assert (seen.victims, seen.over_ns) == ((0, 2), None)
        assert seen.lost == (2 if action == "drop" else 0)
        assert seen.seen_ns - seen.since_ns >= DETECT_MS * 1e6
        router.run(XON, port=1)
        assert reason(router, PAUSED) == after  # not quiet for long enough
        assert storm(router).over_ns is None
        time.sleep(RESTORE_MS / 1e3)
        assert storm(router).over_ns is not None
        assert reason(router, PAUSED) == "forwarded"
        assert (storm(router).over_ns or 0) > seen.seen_ns + RESTORE_MS * 1e6
        assert storm(router).number == before + 1


def test_a_pause_with_gaps_is_no_storm(router: Rig) -> None:
    with watched(router, "drop") as before:
        for _ in range(4):
            router.run(XOFF, port=1)
            time.sleep(DETECT_MS / 2e3)
            assert reason(router, PAUSED) == "forwarded"
            router.run(XON, port=1)
        assert sum(found.number for found in read_storms(router.fabric, router.node)) == before


def test_a_refreshed_pause_is_one_pause(router: Rig) -> None:
    with watched(router, "drop") as before:
        for _ in range(4):
            router.run(XOFF, port=1)
            time.sleep(DETECT_MS / 3e3)
        assert reason(router, PAUSED) == "drop_storm"
        assert storm(router).number == before + 1


def test_an_idle_queue_has_no_victims(router: Rig) -> None:
    with watched(router, "drop") as before:
        router.run(XOFF, port=1)
        time.sleep(1.5 * DETECT_MS / 1e3)
        router.run(XON, port=1)
        assert reason(router, PAUSED) == "forwarded"
        assert sum(found.number for found in read_storms(router.fabric, router.node)) == before


def test_without_a_watchdog_pauses_change_nothing(router: Rig) -> None:
    router.run(XOFF, port=1)
    assert reason(router, PAUSED) == "forwarded"
    with endpoint(router, 0):
        assert reason(router, PAUSED) == "forwarded"  # pauses are not tracked


def test_a_pause_that_came_after_the_clock_was_read_is_no_storm(router: Rig) -> None:
    """A pause received on another CPU while this one processes a frame."""
    with watched(router, "drop") as before, mapped_pauses(router.fabric, router.node) as rows:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        rows["since_ns"][1][PRIORITY] = rows["until_ns"][1][PRIORITY] = now + 10**9
        assert reason(router, PAUSED) == "forwarded"
        rows["since_ns"][1][PRIORITY] = now - DETECT_MS * 10**6
        assert reason(router, PAUSED) == "drop_storm"
        assert storm(router).number == before + 1


@contextmanager
def restless(router: Rig, port: int) -> Iterator[None]:
    """A port on which every frame ends or begins a storm; no frame leaves by it, so each can be sent again."""
    with opened_map(router.fabric, router.node, "forward", "transmit") as (fd, layout):
        ifindex = bpf.lookup(fd, port_key(port), layout.value.itemsize)
        assert ifindex is not None
        with mapped_pauses(router.fabric, router.node) as rows:
            before = rows[port].copy()
            rows["until_ns"][port] = 2**63
            rows["restore_ns"][port] = 2**64 - 2**63  # so it ends at once
            rows["detect_ns"][port] = 0
            rows["storm_action"][port] = 1
            bpf.delete(fd, port_key(port))
            try:
                yield
            finally:
                rows[port] = before
                router.inside(bpf.update, fd, port_key(port), ifindex)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two CPUs")
def test_a_storm_seen_by_two_cpus_at_once_is_one_storm(router: Rig) -> None:
    """Each storm drops the one frame that detected it, so storms and dropped frames are equal in number."""
    frames = 200_000
    together = Barrier(2)
    cpus = sorted(os.sched_getaffinity(0))

    def hammer(at: int) -> None:
        namespace.enter(router.fabric)
        os.sched_setaffinity(0, {cpus[at]})
        fd = bpf.open_pin(pins.node_folder(router.fabric, router.node) / pins.PROGRAM)
        assert fd is not None
        with bpf.closing(fd):
            together.wait()
            run_frame(fd, PAUSED, socket.if_nametoindex("p0"), repeat=frames)

    def storms() -> int:
        return sum(found.number for found in read_storms(router.fabric, router.node))

    with restless(router, 1), ThreadPoolExecutor(2) as threads:
        before, counted = storms(), counts(router)
        list(threads.map(hammer, range(2)))
        found = {name: count - counted.get(name, 0) for name, count in counts(router).items()}
        assert found["drop_storm"] + found["up_unresolved"] == 2 * frames
        assert storms() - before == found["drop_storm"] > frames // 4


def counts(router: Rig) -> dict[str, Any]:
    return frames_by_reason(read_counters(router.fabric, router.node))


def test_a_word_has_a_bit_for_every_port_that_a_server_can_have() -> None:
    most = (
        BCube.model_json_schema()["properties"]["levels"]["maximum"],
        2 * Torus.model_json_schema()["properties"]["dims"]["maxItems"],
        FatTree.model_json_schema()["properties"]["nics"]["maximum"],
        LeafSpine.model_json_schema()["properties"]["nics"]["maximum"],
    )
    assert max(most) == 30 <= kernel.constant("STORM_VICTIMS") <= 64
