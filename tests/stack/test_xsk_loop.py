# SPDX-License-Identifier: Apache-2.0
"""The loop over a port: whole transfers, the rate of the cable, and pauses between two endpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import pytest

from hipsnet.node.forwarding import set_loss
from hipsnet.node.pauses import read_pauses
from hipsnet.stack.ports.loop import core
from tests.stack.joined import PRIORITY, Side, joined
from tools.benchmarks.two_nodes import End, cable

MIB = 1 << 20
BATCH = 16  # frames that a port sends before it polls again: SEND_BATCH of ports/port.c


@pytest.fixture(scope="module")
def ends() -> Iterator[tuple[End, End]]:
    if os.geteuid() != 0:
        pytest.skip("root: makes network namespaces")
    core()
    with cable() as ends:
        yield ends


def work(near: Side, far: Side, count: int, bound_s: float = 20) -> None:
    """Run both ends until each has `count` completions."""
    end = time.monotonic() + bound_s
    while len(near.done) < count or len(far.done) < count:
        assert time.monotonic() < end, (len(near.done), len(far.done), near.pair.counters())
        near.work(0)
        far.work(0)


@pytest.mark.parametrize("loss_ppm", [0, 20_000])
def test_64_mib_arrive_byte_for_byte(ends: tuple[End, End], loss_ppm: int) -> None:
    size, count = (MIB, 64) if loss_ppm == 0 else (MIB, 4)
    with joined(ends, size, timeout_s=0.02) as (near, far):
        near.memory[:] = np.random.default_rng(1).integers(0, 256, size)
        for end in ends:
            set_loss(end.fabric, end.name, 0, loss_ppm)
        try:
            for number in range(count):
                near.write(far, number)
            work(near, far, count)
        finally:
            for end in ends:
                set_loss(end.fabric, end.name, 0, 0)
        assert np.array_equal(near.memory, far.memory)
        assert [done.immediate for done in far.done] == list(range(count))
        if loss_ppm:
            assert near.pair.counters()["repeated"] > 0


def test_the_rate_of_the_cable_is_held(ends: tuple[End, End]) -> None:
    rate, burst_ns = 400_000_000, 1_000_000
    with joined(ends, MIB, rate_bps=rate, burst_ns=burst_ns) as (near, far):
        began = time.monotonic()
        for number in range(8):
            near.write(far, number)
        work(near, far, 8)
        took = time.monotonic() - began
        sent = near.stack.counters(0)["tx_bytes"]
        # rate * (t + burst) and one frame; there is no lower bound, as a busy machine may be slower.
        assert sent > 8 * MIB
        assert sent <= rate / 8 * (took + burst_ns / 1e9) + 4178


def test_a_receiver_that_stops_taking_stops_its_sender(ends: tuple[End, End]) -> None:
    before = [read_pauses(end.fabric, end.name)[0][PRIORITY] for end in ends]
    with joined(ends, MIB, rate_bps=200_000_000, xoff_chunks=64, xon_chunks=16) as (near, far):
        far.stack.freeze(0)
        near.write(far, 0)
        end = time.monotonic() + 10
        while near.stack.counters(0)["rx_pauses"] < 2 and time.monotonic() < end:
            near.work(0)
            far.work(0)
        sent = near.stack.counters(0)["tx_frames"]
        assert far.stack.counters(0)["tx_pauses"] >= 2, "refreshed while the receiver is full"
        for _ in range(20):
            near.work(0)
            far.work(0)
        assert near.stack.counters(0)["tx_frames"] == sent < MIB // 4096
        far.stack.freeze(0, False)
        work(near, far, 1)
        assert near.pair.counters()["repeated"] == 0 == near.pair.counters()["timeouts"]
        # Readable while the stacks run, with access to the node's maps.
        time.sleep(0.01)  # the counters are brought up to date every 5 ms
        near.work(0), far.work(0)
        sender, receiver = (
            {name: int(now[name] - then[name]) for name in now.dtype.names}
            for now, then in zip(
                (read_pauses(end.fabric, end.name)[0][PRIORITY] for end in ends), before, strict=True
            )
        )
    assert sender["rx_pause_frames"] == receiver["tx_pause_frames"] >= 3
    assert sender["rx_pause_transitions"] == receiver["tx_pause_transitions"] == 1
    assert min(sender["rx_pause_us"], receiver["tx_pause_us"]) > 0
    assert sender["tx_pause_frames"] == receiver["rx_pause_frames"] == 0


def test_a_pause_stops_what_is_not_yet_in_the_batch(ends: tuple[End, End]) -> None:
    with joined(ends, MIB, xoff_chunks=1) as (near, far):
        far.stack.freeze(0)
        near.write(far, 0)
        near.work(0)
        assert near.stack.counters(0)["tx_frames"] == BATCH
        far.work(0)  # more than its threshold lies there
        for _ in range(10):
            near.work(0)
        assert near.stack.counters(0)["tx_frames"] == BATCH
        far.stack.freeze(0, False)
        work(near, far, 1)
