# SPDX-License-Identifier: Apache-2.0
"""Calls over the XDP wire on a link in memory: losses, hostile peers, and the end of a connection."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hipsnet.engine.engine import Reason
from hipsnet.stack.roce.core import Core
from tests.engine.test_core import run_calls
from tests.engine.world import MS, Call, Limits, World

EAGER = Limits(eager_bytes=2000)
FAULTS = {"none": (0, 0, 0), "lossy": (20_000, 10_000, 20_000), "bad": (150_000, 100_000, 200_000)}


@pytest.mark.parametrize("limits", [Limits(), EAGER], ids=["written", "eager"])
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_calls_on_any_link(xdp_scripted: Core, faults: tuple[int, int, int], limits: Limits) -> None:
    for seed in range(3):
        order = random.Random(seed)
        calls = [Call(order.choice((0, 1, 7, 50, 333, 1009)), seed=n) for n in range(8)]
        world = World(xdp_scripted, ("bcube(2,2)", "torus(3)")[seed % 2], limits=limits, seed=seed)
        xdp_scripted.lib.world_faults(world.handle, *faults)
        run_calls(world, calls, order)
        assert all(xdp_scripted.lib.world_is_drained(world.handle, rank) for rank in range(world.ranks))
        assert xdp_scripted.lib.world_rnr_naks(world.handle) == 0
        world.close()


def test_a_peer_that_sends_nothing_back_does_not_fill_the_queue(xdp_scripted: Core) -> None:
    """As many calls as the window has, whose control messages and segments are not acknowledged for long."""
    for limits in (Limits(slots=40, eager_slots=60), Limits(slots=40, eager_slots=60, eager_bytes=2000)):
        world = World(xdp_scripted, "torus(2)", limits=limits)
        calls = [Call(300, seed=n) for n in range(xdp_scripted.lib.CORE_WINDOW)]
        for call in calls:
            assert world.submit(0, call)
            for _ in range(50):
                xdp_scripted.lib.core_push(world.cores[0])
        assert not world.failure(0)
        for call in calls:
            assert world.submit(1, call)
        world.run()
        for submitted in world.calls:
            for call, done in zip(calls, submitted, strict=True):
                assert done.array.tobytes() == call.result(2).tobytes()
        assert xdp_scripted.lib.world_rnr_naks(world.handle) == 0
        world.close()


def words(world: World, rank: int) -> tuple[int, int, str]:
    failure = world.failure(rank)
    return failure.reason, failure.culprit, world.core.ffi.string(failure.words).decode()


REFUSES = (Reason.CLOSED, 1, "it wrote to memory that is not registered, or beyond its end")
REFUSED = (Reason.CLOSED, 0, "it refuses the write: no such region, or beyond its end")


@pytest.mark.parametrize("key", ["none", "guessed", "old", "beyond", "wraps"])
def test_a_write_that_no_region_contains_ends_the_connection(xdp_scripted: Core, key: str) -> None:
    ffi, lib = xdp_scripted
    world = World(xdp_scripted, "torus(2)")
    for rank in (0, 1):
        assert world.submit(rank, Call(100))
    world.run()
    memory, data = ffi.new("u8[]", 64), ffi.new("u8[]", b"\xff" * 600)
    old = lib.world_old_key(world.handle, 0, memory, 64)
    staging = int(lib.world_staging_key(world.handle, 0, 0))
    given = {
        "none": (0, 0),
        "guessed": (old ^ 0x10000, 0),
        "old": (old, 0),
        "beyond": (staging, 4 * 256 - 599),
        "wraps": (staging, 2**64 - 8),
    }[key]
    for rank in (0, 1):
        assert world.submit(rank, Call(5000))
    assert lib.world_write(world.handle, 1, 0, data, 600, *given)
    world.run()
    assert words(world, 0) == REFUSES
    assert bytes(ffi.buffer(memory)) == bytes(64)
    # Its ABORT cannot be sent, as the connection is gone; the writer learns it from the refusal.
    assert words(world, 1) == REFUSED
    world.close()


def test_a_message_that_is_too_long_ends_the_connection(xdp_scripted: Core) -> None:
    world = World(xdp_scripted, "torus(2)")
    data = world.core.ffi.new("u8[]", 4000)
    world.run()
    for rank in (0, 1):
        assert world.submit(rank, Call(5000))
    assert world.core.lib.world_send(world.handle, 1, 0, data, 4000)
    world.run()
    assert words(world, 0) == (Reason.CLOSED, 1, "its message is longer than the receive posted for it")
    assert words(world, 1)[:2] == (Reason.CLOSED, 0)
    world.close()


@pytest.mark.parametrize("says_so", [True, False])
def test_a_peer_that_leaves(xdp_scripted: Core, says_so: bool) -> None:
    world = World(xdp_scripted, "torus(2)")
    lib = xdp_scripted.lib
    for rank in (0, 1):
        assert world.submit(rank, Call(100))
    world.run()
    assert world.submit(0, Call(100))
    lib.world_leave(world.handle, 1, says_so)
    lib.world_pass(world.handle, 50 * MS)
    assert words(world, 0) == (Reason.CLOSED, 1, "it closed the connection")
    world.close()


def test_a_farewell_replaces_acknowledgements(xdp_scripted: Core) -> None:
    """Everything has arrived, and no acknowledgement reaches the sender before its peer is gone."""
    for arrives in (True, False):
        world = World(xdp_scripted, "torus(2)")
        lib = xdp_scripted.lib
        work = [world.submit(rank, Call(60)) for rank in (0, 1)]
        assert all(work)
        done = xdp_scripted.lib.CALL_DONE
        while world.state(1, work[1]) != done:  # type: ignore[arg-type]
            assert lib.world_step(world.handle)
        lib.world_faults(world.handle, 1_000_000, 0, 0)
        lib.world_clear(world.handle)
        assert world.state(0, work[0]) != done  # type: ignore[arg-type]
        lib.world_leave(world.handle, 1, arrives)
        lib.world_pass(world.handle, 50 * MS)
        state = world.state(0, work[0])  # type: ignore[arg-type]
        assert state == (done if arrives else xdp_scripted.lib.CALL_FAILED)
        world.close()


def test_a_path_that_is_dead_ends_the_connection(xdp_scripted: Core) -> None:
    world = World(xdp_scripted, "torus(2)", limits=Limits(timeout_ms=1_000_000))
    for rank in (0, 1):
        assert world.submit(rank, Call(100))
    xdp_scripted.lib.world_faults(world.handle, 1_000_000, 0, 0)
    xdp_scripted.lib.world_clear(world.handle)
    world.run()
    xdp_scripted.lib.world_pass(world.handle, MS)
    for rank in (0, 1):
        assert words(world, rank) == (Reason.CLOSED, 1 - rank, "it does not answer (retries exceeded)")
    world.close()


def test_abandoned_writes_do_not_delay_messages(xdp_scripted: Core) -> None:
    """An ABORT overtakes the writes that have not begun, and the peer's failure is ours."""
    world = World(xdp_scripted, "torus(2)", limits=Limits(slots=16, slot_bytes=8192))
    lib = xdp_scripted.lib
    world.run()
    for rank in (0, 1):
        assert world.submit(rank, Call(16_000))
    before = lib.world_now(world.handle)
    for _ in range(40):
        lib.world_step(world.handle)
    lib.core_fail(world.cores[1], int(Reason.LOCAL), b"stopped")
    world.calls[1].clear()  # a program may free the arrays
    lib.world_push(world.handle, 1)
    steps = world.run()
    assert words(world, 0) == words(world, 1) == (Reason.LOCAL, 1, "stopped")
    assert lib.world_now(world.handle) >= before
    assert steps < 2 * 16_000 * 8 // 256, "most packets were not sent"
    assert lib.world_is_drained(world.handle, 1)
    world.close()


def test_random_messages_cause_no_memory_error(xdp_scripted: Core) -> None:
    ffi, lib = xdp_scripted
    for seed in range(60):
        order = random.Random(seed)
        world = World(xdp_scripted, "torus(2)", limits=order.choice((Limits(), EAGER)))
        world.run()
        for rank in (0, 1):
            assert world.submit(rank, Call(order.choice((10, 1000)), seed=seed))
        kept: list[Any] = []
        for _ in range(order.randrange(1, 5)):
            body = order.randbytes(order.choice((0, 1, 5, 21, 60, 300)))
            body = bytes([order.randrange(7)]) + body
            kept.append(ffi.new("u8[]", body))
            lib.world_send(world.handle, 1, 0, kept[-1], len(body))
            for _ in range(order.choice((0, 3, 30))):
                lib.world_step(world.handle)
        world.run()
        lib.world_pass(world.handle, 3000 * MS)
        world.run()
        assert world.failure(0)
        world.close()
