# SPDX-License-Identifier: Apache-2.0
"""Calls that cannot complete end with one culprit on every rank; invalid messages are refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hipsnet.engine.reduction import DTYPES
from hipsnet.stack.roce.core import Core
from tests.engine.world import MS, OPERATIONS, Call, Limits, World

SMALL, LARGE = Call(4), Call(500)


@pytest.fixture
def world(scripted: Core) -> Iterator[World]:
    made = World(scripted, "bcube(3,2)")
    yield made
    made.close()


def failures(world: World, without: Collection[int] = ()) -> list[tuple[int, int, int, int]]:
    """(reason, culprit, seen by, level) of every rank but those."""
    found = [world.failure(rank) for rank in range(world.ranks) if rank not in without]
    assert all(found), [bool(one) for one in found]
    return [(one.reason, one.culprit, one.seen_by, one.level) for one in found]


def settle(world: World, seconds: float) -> None:
    """Advance time in small steps and deliver everything in flight."""
    for _ in range(int(seconds * 1000) // 50):
        world.run()
        world.core.lib.world_pass(world.handle, 50 * MS)
    world.run()


@pytest.mark.parametrize("call", [SMALL, LARGE], ids=["eager", "written"])
def test_a_rank_that_never_connects_is_reported_absent(world: World, call: Call) -> None:
    for rank in range(8):
        world.submit(rank, call)
    settle(world, 0.9)
    assert not any(world.failure(rank) for rank in range(9))
    settle(world, 0.4)
    assert {one[:2] for one in failures(world)} == {(world.core.lib.FAILURE_ABSENT, 8)}
    assert all(world.state(rank, world.calls[rank][0]) == world.core.lib.CALL_FAILED for rank in range(8))


@pytest.mark.parametrize("call", [SMALL, LARGE], ids=["eager", "written"])
def test_a_rank_that_sends_nothing_is_reported_silent(world: World, call: Call) -> None:
    for number in world.routes[4].values():
        world.core.lib.world_cut(world.handle, 4, number, True)
    for rank in range(9):
        world.submit(rank, call)
    settle(world, 1.3)
    assert {one[:2] for one in failures(world, {4})} == {(world.core.lib.FAILURE_SILENT, 4)}
    assert world.failure(4)  # its neighbours have reported it


def test_a_rank_that_is_held_up_in_an_earlier_call_is_not_absent(scripted: Core) -> None:
    """Rank 3 sends rank 4 nothing more; ranks behind another port of rank 4 await it in the next call."""
    lib, later = scripted.lib, 0
    for seed in range(12):
        world = World(scripted, "bcube(3,2)", seed=seed)
        for rank in range(9):
            world.submit(rank, LARGE)
        for _ in range(100 + 20 * seed):
            lib.world_step(world.handle)
        lib.world_hold_writes(world.handle, 3, world.connection(3, 4))
        world.run()
        for rank in (0, 1, 2, 3, 5, 6, 7, 8):
            world.submit(rank, LARGE)
        if world.state(4, world.calls[4][0]) == lib.CALL_ACTIVE:
            later += world.state(1, world.calls[1][0]) == lib.CALL_DONE
            settle(world, 1.9)
            assert not any(world.failure(rank) for rank in range(9))
            settle(world, 0.6)
            assert {one[:2] for one in failures(world)} == {(lib.FAILURE_STALLED, 3)}
        world.close()
    assert later


def test_the_silence_between_calls_does_not_count(world: World) -> None:
    """No rank calls, and no heartbeats arrive, for much longer than the timeout."""
    for rank, routes in enumerate(world.routes):
        for number in routes.values():
            world.core.lib.world_cut(world.handle, rank, number, True)
    settle(world, 3)
    for rank in range(9):
        world.submit(rank, LARGE)
    settle(world, 0.5)
    assert not any(world.failure(rank) for rank in range(9))
    for rank, routes in enumerate(world.routes):
        for number in routes.values():
            world.core.lib.world_cut(world.handle, rank, number, False)
    settle(world, 0.1)
    assert all((calls[0].array == LARGE.result(9)).all() for calls in world.calls)


def test_a_segment_that_is_lost_ends_the_call_on_all_ranks(scripted: Core) -> None:
    """The next segment or heartbeat of its connection shows it."""
    for seed in range(24):
        world = World(scripted, "torus(3)", limits=Limits(eager_bytes=8), seed=seed)
        for rank in range(3):
            world.submit(rank, Call(60))
        for _ in range(10 + 2 * seed):
            scripted.lib.world_step(world.handle)
        if scripted.lib.world_drop(world.handle, 1, world.connection(1, 2)):
            settle(world, 0.5)
            assert {one[:2] for one in failures(world)} == {(scripted.lib.FAILURE_PROTOCOL, 1)}
        world.close()


def test_stalled_ranks_all_blame_the_one_furthest_behind(world: World) -> None:
    """All ranks are alive and in the call, but one rank's data is never sent."""
    lib = world.core.lib
    for rank in range(9):
        world.submit(rank, LARGE)
    for number in world.routes[7].values():
        lib.world_hold_writes(world.handle, 7, number)
    settle(world, 1.9)
    assert not any(world.failure(rank) for rank in range(9))
    settle(world, 0.6)
    assert {one[:2] for one in failures(world)} == {(lib.FAILURE_STALLED, 7)}


def test_a_slow_rank_is_awaited_while_it_makes_progress(world: World) -> None:
    for rank in range(9):
        world.submit(rank, LARGE)
    number = world.connection(5, 4)
    for _ in range(60):  # one step each 0.2 s: ten times the timeout in all
        world.core.lib.world_cut(world.handle, 5, number, True)
        settle(world, 0.2)
        world.core.lib.world_cut(world.handle, 5, number, False)
        world.core.lib.world_step(world.handle)
    settle(world, 0.1)
    assert not any(world.failure(rank) for rank in range(9))
    assert all((calls[0].array == LARGE.result(9)).all() for calls in world.calls)


def test_a_connection_that_ends_is_an_end_at_once_if_it_is_awaited(world: World) -> None:
    lib = world.core.lib
    lib.world_close(world.handle, 2, 0, b"it closed the connection")
    assert not world.failure(peer_of(world, 2, 0))  # nothing is awaited yet
    for rank in range(9):
        world.submit(rank, LARGE)
    settle(world, 0.1)
    reported = failures(world, {2})
    assert {one[:2] for one in reported} == {(lib.FAILURE_CLOSED, 2)}
    words = {world.core.ffi.string(world.failure(rank).words) for rank in range(9) if rank != 2}
    assert words == {b"it closed the connection"}


def peer_of(world: World, rank: int, connection: int) -> int:
    return next(peer for (peer, _, _), number in world.routes[rank].items() if number == connection)


@pytest.mark.parametrize(
    "other",
    [Call(5), Call(600), Call(4, np.dtype(np.float32)), Call(4, DTYPES[5], "max")],
    ids=["size", "much-larger", "dtype", "operation"],
)
def test_another_call_on_one_rank(world: World, other: Call) -> None:
    for rank in range(9):
        world.submit(rank, other if rank == 5 else SMALL)
    settle(world, 0.1)
    assert {one[0] for one in failures(world)} == {world.core.lib.FAILURE_MISMATCH}
    for rank in range(9):
        failure = world.failure(rank)
        assert {(one.count, one.dtype, one.operation) for one in (failure.ours, failure.theirs)} == {
            (call.count, DTYPES.index(call.dtype), OPERATIONS.index(call.operation))
            for call in (SMALL, other)
        }


def test_an_exception_here_ends_the_calls_of_all(world: World) -> None:
    for rank in range(9):
        world.submit(rank, LARGE)
    for _ in range(30):
        world.core.lib.world_step(world.handle)
    world.core.lib.core_fail(world.cores[6], world.core.lib.FAILURE_LOCAL, b"KeyboardInterrupt")
    world.run()
    assert {one[:2] for one in failures(world)} == {(world.core.lib.FAILURE_LOCAL, 6)}
    assert {world.core.ffi.string(world.failure(rank).words) for rank in range(9)} == {b"KeyboardInterrupt"}
    assert world.submit(0, SMALL) is None


HELLO, READY, DATA, CREDIT, HEARTBEAT, ABORT = range(6)


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def signature(count: int, dtype: int = 5, operation: int = 0) -> bytes:
    return number(count, 8) + bytes(12) + bytes([dtype, operation])


def buffers(*first: int) -> bytes:
    return bytes([len(first)]) + b"".join(number(one, 8) + bytes(4) for one in first)


WRONG: dict[str, Callable[[Any], bytes]] = {
    "empty": lambda _: b"",
    "unknown": lambda _: b"\x09",
    "short": lambda _: bytes([CREDIT, 0]),
    "long": lambda _: bytes([CREDIT]) + bytes(13),
    "second hello": lambda _: bytes([HELLO]) + bytes(20),
    "credit for nothing": lambda _: bytes([CREDIT]) + number(7, 4) + bytes(8),
    "credit for free slots": lambda _: bytes([CREDIT]) + bytes(4) + number(1, 8),
    "dtype": lambda _: bytes([READY]) + bytes(8) + signature(4, dtype=6) + buffers(0),
    "operation": lambda _: bytes([READY]) + bytes(8) + signature(4, operation=6) + buffers(0),
    "buffers": lambda _: bytes([READY]) + bytes(8) + signature(4) + buffers(*range(65)),
    "order of buffers": lambda _: bytes([READY]) + number(1, 4) + bytes(4) + signature(4) + buffers(2, 0),
    "a call that has ended": lambda _: bytes([READY]) + bytes(8) + signature(4) + buffers(0),
    "data of a call that has ended": lambda _: bytes([DATA]) + bytes(12) + signature(4),
    "early data without end": lambda _: bytes([DATA]) + number(9, 4) + bytes(8) + signature(4) + bytes(4000),
    "long words": lambda _: bytes([ABORT]) + bytes(32 + 44) + b"x" * 1001,
    "a failure of no kind": lambda _: bytes([ABORT]) + bytes(76),
    "a failure of an unknown kind": lambda _: bytes([ABORT]) + bytes(12) + number(99, 4) + bytes(60),
    "a failure of an unknown rank": lambda _: (
        bytes([ABORT]) + number(9, 4) + bytes(8) + number(1, 4) + bytes(60)
    ),
    "progress of an unknown rank": lambda _: bytes([HEARTBEAT]) + bytes(24) + number(9, 4),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_an_impossible_message_is_an_error_of_its_sender(world: World, wrong: Callable[[Any], bytes]) -> None:
    world.run()
    words = wrong(world)
    world.core.lib.world_inject(world.handle, 0, 1, words, len(words))
    world.run()
    culprit = peer_of(world, 0, 1)
    assert {one[:2] for one in failures(world)} == {(world.core.lib.FAILURE_PROTOCOL, culprit)}


@pytest.mark.parametrize(
    "immediate", [63 << 20, 4 << 20, 5 << 26 | 63 << 20, 1], ids=["in place", "no slot", "no call", "early"]
)
def test_an_impossible_write_is_an_error(world: World, immediate: int) -> None:
    world.run()
    world.core.lib.world_inject_write(world.handle, 0, 0, immediate)
    if immediate == 1:  # segment 1 waits for segment 0, in a slot; a second one there is wrong
        assert not world.failure(0)
        world.core.lib.world_inject_write(world.handle, 0, 0, immediate)
    assert world.failure(0).reason == world.core.lib.FAILURE_PROTOCOL


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_a_peer_sends_the_others_end_or_go_on(scripted: Core, data: st.DataObject) -> None:
    """Messages and writes of any content in the middle of calls: no crash (under sanitizers), no endless loop."""
    world = World(scripted, "torus(3)", limits=Limits(eager_bytes=64), seed=data.draw(st.integers(0, 99)))
    order = random.Random(data.draw(st.integers(0, 99)))
    for _ in range(20):
        rank = order.randrange(world.ranks)
        world.submit(rank, Call(order.choice((0, 3, 100))))
        for _ in range(order.randrange(6)):
            scripted.lib.world_step(world.handle)
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.integers(0, 6))
        words = bytes([kind]) + data.draw(st.binary(max_size=120))
        if kind in (DATA, READY):
            words = bytes([kind]) + number(data.draw(st.integers(0, 9)), 4) + words[5:]
        scripted.lib.world_inject(world.handle, 0, order.randrange(2), words, len(words))
        scripted.lib.world_inject_write(
            world.handle, 1, order.randrange(2), data.draw(st.integers(0, 2**32 - 1))
        )
    world.run()
    settle(world, 3)
    world.close()
