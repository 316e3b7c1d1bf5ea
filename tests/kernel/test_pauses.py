# SPDX-License-Identifier: Apache-2.0
"""Pauses in the forwarding program: the frames they stop, and the endpoints for which frames are held."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import kernel
from hipsnet.node.pauses import mapped_pauses
from hipsnet.node.priorities import priority_differences, set_priorities
from tests.kernel.frames import ethernet, ipv4, pfc
from tests.kernel.rig import PRIORITIES, Rig
from tests.kernel.sockets import endpoint

FAR = "10.1.9.9"  # leaves by port 1
S = 1_000_000_000
RECENT = kernel.constant("POLL_RECENT_NS")
QUANTUM_PS = 25_600_000  # at 20 Mbit/s: an XOFF lasts 1.7 s


def marked(dscp: int) -> bytes:
    return ethernet(ipv4(FAR, tos=dscp << 2))


def reason(router: Rig, frame: bytes, port: int = 0) -> str:
    (found,) = router.counted(frame, port)[2]
    return found


@contextmanager
def paused(router: Rig, priority: int) -> Iterator[Any]:
    """An endpoint on port 0 that holds frames of port 1; the peer of port 1 has just paused a priority."""
    with endpoint(router, 0), mapped_pauses(router.fabric, router.node) as rows:
        row = rows[1:2]
        row["quantum_ps"], row["polled_ns"] = QUANTUM_PS, now() + 10 * S
        try:
            assert (
                reason(router, pfc(1 << priority), port=1) == "drop_pfc"
            )  # port 1 has no endpoint of its own
            assert row["until_ns"][0][priority] > now()
            yield row
        finally:
            for name in ("quantum_ps", "polled_ns", "until_ns", "since_ns", "buffered"):
                row[name] = 0


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@pytest.mark.parametrize(
    ("ago_ns", "verdict"),
    [(-10 * S, "buffered"), (0, "buffered"), (RECENT, "forwarded"), (8 * S, "forwarded")],
)
def test_frames_are_held_only_for_an_endpoint_that_polls(router: Rig, ago_ns: int, verdict: str) -> None:
    with paused(router, 3) as row:
        row["polled_ns"] = now() - ago_ns
        assert reason(router, marked(26)) == verdict
        assert row["buffered"][0].tolist() == [0, 0, 0, int(verdict == "buffered"), 0, 0, 0, 0]


def test_frames_left_in_the_buffer_block_no_others(router: Rig) -> None:
    with paused(router, 3) as row:
        assert reason(router, marked(26)) == "buffered"
        row["until_ns"] = now()  # over, but the endpoint has not sent what it holds
        assert reason(router, marked(26)) == "buffered"
        row["polled_ns"] = now() - RECENT
        assert reason(router, marked(26)) == "forwarded"
        row["polled_ns"] = now()
        assert reason(router, marked(26)) == "buffered"
        row["buffered"] = 0
        assert reason(router, marked(26)) == "forwarded"


@pytest.mark.parametrize("dscp", [0, 10, 24, 26, 34, 63])
def test_a_pause_stops_the_priority_that_the_map_gives_a_dscp(router: Rig, dscp: int) -> None:
    for priority in (0, 3, 4):
        with paused(router, priority):
            held = PRIORITIES[dscp] == priority
            assert reason(router, marked(dscp)) == ("buffered" if held else "forwarded"), priority


def test_differences_of_the_map_are_named(router: Rig) -> None:
    other = (*PRIORITIES[:26], 5, *PRIORITIES[27:])
    found = list(priority_differences(router.fabric, router.node, other))
    assert found == [f"port {port} gives DSCP 26 the priority 3, not 5" for port in range(3)]
    set_priorities(router.fabric, router.node, other)
    try:
        assert not list(priority_differences(router.fabric, router.node, other))
        with paused(router, 5):
            assert reason(router, marked(26)) == "buffered"
    finally:
        set_priorities(router.fabric, router.node, PRIORITIES)
    assert not list(priority_differences(router.fabric, router.node, PRIORITIES))
