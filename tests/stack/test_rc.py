# SPDX-License-Identifier: Apache-2.0
"""A reliable connection carries messages byte for byte, whatever the link does to its packets."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsnet.stack.roce.core import Core
from tests.stack.link import CHUNK, Faults, Link, Side, connect

MIB = 1 << 20
LOSSY: dict[str, Any] = {"timeout_ns": 2_000_000}
FAULTS = {
    "none": Faults(),
    "loss": Faults(loss=0.02),
    "double": Faults(double=0.1),
    "hold": Faults(hold=0.05),
    "all": Faults(loss=0.01, double=0.02, hold=0.02, mark=0.1),
}


def content(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def done(side: Side, count: int) -> Callable[[], bool]:
    return lambda: len(side.completions) >= count


def statuses(side: Side) -> set[int]:
    return {int(one.status) for one in side.completions}


@pytest.mark.parametrize("mtu", [256, 1024, 4096])
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_a_write_arrives_byte_for_byte(core: Core, faults: Faults, mtu: int) -> None:
    size = mtu * 1000 + 77  # a last packet with a pad
    a, b = connect(core, psns=(0xFFFF80, 5), path_mtu=mtu, **LOSSY)  # whose PSNs wrap around
    memory = b.register(size)
    b.receive(0, identity=9)
    assert a.write(content(size), memory.address, memory.key, identity=4, immediate=0xCAFE0001)
    link = Link((a, b), faults)
    assert link.run(lambda: bool(a.completions and b.completions))
    (sent,), (written,) = a.completions, b.completions
    assert (sent.id, sent.status, sent.kind) == (4, core.lib.RC_OK, core.lib.RC_SENT)
    assert (written.id, written.kind, written.bytes) == (9, core.lib.RC_WRITTEN, size)
    assert (written.has_immediate, written.immediate) == (True, 0xCAFE0001)
    assert memory.read(size) == content(size)
    assert memory.is_guarded()
    if faults == Faults():
        assert a.counters.repeated == 0
        assert b.counters.tx_acks <= 1000 // 64 + 1
    if faults.loss:
        assert b.counters.tx_nak_sequence > 0
        assert a.counters.repeated > 0
    if faults.double:
        assert b.counters.rx_duplicates > 0


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
def test_messages_both_ways_at_once(core: Core, faults: Faults) -> None:
    sizes = [0, 1, 3, 1023, 1024, 1025, 4096, 70000] * 4
    sides = connect(core, psns=(0xFFFFFE, 0xFFFFC0), **LOSSY)
    buffers: list[list[memoryview]] = [[], []]
    for index, side in enumerate(sides):
        for i, size in enumerate(sizes):
            buffers[index].append(side.receive(70000, identity=i))
            immediate = i if i % 2 else None
            assert side.send(content(size, seed=i + 100 * index), identity=1000 + i, immediate=immediate)
    count = 2 * len(sizes)
    link = Link(sides, faults)
    assert link.run(lambda: done(sides[0], count)() and done(sides[1], count)())
    for index, side in enumerate(sides):
        received = [one for one in side.completions if one.kind == core.lib.RC_RECEIVED]
        sent = [one.id for one in side.completions if one.kind == core.lib.RC_SENT]
        assert sent == [1000 + i for i in range(len(sizes))]
        assert [(one.id, one.bytes) for one in received] == list(enumerate(sizes))
        assert [one.immediate for one in received if one.has_immediate] == list(range(1, len(sizes), 2))
        for i, size in enumerate(sizes):
            assert buffers[index][i][:size] == content(size, seed=i + 100 * (1 - index))


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 9000), min_size=1, max_size=20),
    kinds=st.integers(0, 2**40),
    mtu=st.sampled_from([256, 512, 1024, 2048, 4096]),
    window=st.integers(1, 128),
    psn=st.integers(0, 0xFFFFFF),
    loss=st.sampled_from([0.0, 0.05]),
    credits=st.booleans(),
)
def test_any_segmentation(
    core: Core,
    sizes: list[int],
    kinds: int,
    mtu: int,
    window: int,
    psn: int,
    loss: float,
    credits: bool,
) -> None:
    """SENDs and WRITEs with and without immediate, in any order of any sizes, come in order and whole."""
    options = {"path_mtu": mtu, "window": window, "credits": credits, **LOSSY}
    a, b = connect(core, psns=(psn, 0), **options)
    memory = b.register(sum(sizes))
    expected, places, at = [], [], 0
    for i, size in enumerate(sizes):
        kind = kinds >> 2 * i & 3
        data = content(size, seed=i)
        if kind < 2:
            places.append((b.receive(9000, identity=i), 0))
            expected.append((core.lib.RC_RECEIVED, i, size, kind == 1))
            assert a.send(data, immediate=i if kind else None)
        else:
            places.append((memory, at))
            if kind == 3:
                b.receive(0, identity=i)
                expected.append((core.lib.RC_WRITTEN, i, size, True))
            assert a.write(data, memory.address + at, memory.key, immediate=i if kind == 3 else None)
        at += size
    link = Link((a, b), Faults(loss=loss, hold=loss), seed=kinds)
    assert link.run(lambda: done(a, len(sizes))() and done(b, len(expected))())
    assert statuses(a) | statuses(b) <= {core.lib.RC_OK}
    found = [(one.kind, one.id, one.bytes, one.has_immediate) for one in b.completions]
    assert found == expected
    for i, (place, offset) in enumerate(places):
        whole = place.read(sum(sizes)) if place is memory else place
        assert whole[offset : offset + sizes[i]] == content(sizes[i], seed=i)
    assert memory.is_guarded()
    assert max(map(len, link.frames)) <= core.lib.RC_FRAME_MAX - 4096 + mtu


@pytest.mark.parametrize("chunk", [100, 2048, CHUNK])
def test_a_frame_in_several_buffers(core: Core, chunk: int) -> None:
    """Headers in the first buffer, the payload in as many as four, the ICRC across the end of one."""
    for size in range(3 * chunk - 90, 3 * chunk - 50) if chunk == 100 else (4096, 4000, 4019):
        a, b = connect(core, path_mtu=4096)
        buffer = b.receive(size)
        assert a.send(content(size))
        frame = a.transmit(1)
        assert b.take(frame, 2, chunk)
        assert bytes(buffer) == content(size)
        assert b.take(frame, 2, chunk)  # an own pair's frame, though late: a duplicate
        assert b.counters.rx_duplicates == 1
        flipped = frame[:-9] + bytes([frame[-9] ^ 1]) + frame[-8:]
        assert not b.take(flipped, 2, chunk)
        assert b.drops() == {"icrc": 1}
        a.close()
        b.close()


def test_at_most_one_window_is_in_flight(core: Core) -> None:
    a, b = connect(core, window=16)
    memory = b.register(MIB)
    assert a.write(content(MIB), memory.address, memory.key)
    now, frames = 1_000_000_000, []
    while frame := a.transmit(now):
        frames.append(frame)
    assert len(frames) == 16
    assert core.lib.rc_unacknowledged(a.pair) == 16
    assert a.deadline() == now + 67108864  # until the time-out
    for frame in frames:
        assert b.take(frame, now)
    assert a.take(b.transmit(now), now)
    assert core.lib.rc_unacknowledged(a.pair) == 0
    assert a.deadline() <= now


def test_one_nak_for_each_gap(core: Core) -> None:
    a, b = connect(core)
    memory = b.register(MIB)
    assert a.write(content(64 * 1024), memory.address, memory.key)
    frames = [a.transmit(1) for _ in range(64)]
    assert b.take(frames[0], 1)
    naks = [b.transmit(1) for frame in frames[2:] if b.take(frame, 1)]
    assert [bool(nak) for nak in naks] == [True] + [False] * 61
    assert a.take(naks[0], 2)
    assert a.counters.rx_nak_sequence == 1
    again = [a.transmit(2) for _ in range(63)]
    assert again[0][50:54] == frames[1][50:54]  # AckReq and PSN
    # The missing packet is lost again: the repeated packets behind it form a new gap.
    assert b.take(again[1], 3)
    assert b.transmit(3)
    assert b.counters.tx_nak_sequence == 2


def test_completions_that_are_not_polled_keep_their_places(core: Core) -> None:
    a, b = connect(core, depth=4)
    for _ in range(4):
        b.receive(8)
        assert a.send(b"12345678")
    assert not a.send(b"x")
    for _ in range(4):
        assert b.take(a.transmit(1), 1)
    assert a.take(b.transmit(1), 1)
    assert not a.send(b"x")  # sent, but the completion is not polled
    assert not core.lib.rc_post_receive(b.pair, 0, core.ffi.NULL, 0)
    assert len(a.poll()) == len(b.poll()) == 4
    assert a.send(b"x")


@pytest.mark.parametrize("lost", [False, True])
def test_dropped_writes_leave_no_gap(core: Core, lost: bool) -> None:
    """Of five writes and two messages, the writes that have not begun are dropped; the rest arrives in order."""
    a, b = connect(core, window=2, path_mtu=1024, **LOSSY)
    regions = [b.register(3000) for _ in range(5)]
    received = [b.receive(16, identity=n) for n in range(8)]
    sends = iter((100, 101))
    for number, memory in enumerate(regions):
        assert a.write(content(3000, number), memory.address, memory.key, identity=number, immediate=number)
        if number in (1, 3):
            assert a.send(b"message %d" % number, identity=next(sends))
    now = 1_000_000_000
    first = [a.transmit(now) for _ in range(2)]
    if lost:
        core.lib.rc_next_deadline(a.pair)
        now += 3_000_000
        assert a.transmit(now), "repeated after a time-out"
    else:
        assert all(b.take(frame, now) for frame in first)
    assert core.lib.rc_started_bytes(a.pair) == 3000
    copies = core.ffi.new("u8[]", 3000)
    core.lib.rc_drop_writes(a.pair, copies)
    core.ffi.memmove(a.kept[0], bytes(3000), 3000)  # its memory is not read any more
    assert core.lib.rc_posted(a.pair) == 3
    link = Link((a, b), now=now)
    assert link.run(lambda: len(a.completions) == 3 and len(b.completions) == 3)
    assert [int(one.id) for one in a.completions] == [0, 100, 101]
    assert statuses(a) == statuses(b) == {core.lib.RC_OK}
    assert regions[0].read(3000) == content(3000)
    assert all(memory.read(3000) == bytes(3000) for memory in regions[1:])
    assert [bytes(received[n][:9]) for n in (1, 2)] == [b"message 1", b"message 3"]
    memory = regions[1]
    assert a.write(content(3000, 9), memory.address, memory.key, identity=9)
    assert link.run(lambda: len(a.completions) == 4)
    assert memory.read(3000) == content(3000, 9)


def test_writes_are_discarded_and_acknowledged(core: Core) -> None:
    """In the middle of a write, of which the first packet is there already."""
    a, b = connect(core, path_mtu=1024)
    memory = b.register(4096)
    for _ in range(2):
        b.receive(16)
    assert a.write(b"\x11" * 4096, memory.address, memory.key, immediate=1)
    assert b.take(a.transmit(1), 1)
    core.lib.endpoint_discard(b.endpoint)
    link = Link((a, b))
    assert link.run(lambda: bool(a.completions and b.completions))
    assert a.write(b"\x22" * 100, memory.address, memory.key ^ 1, immediate=2)
    assert link.run(lambda: len(a.completions) == len(b.completions) == 2)
    assert statuses(a) == statuses(b) == {core.lib.RC_OK}
    assert memory.read(4096) == b"\x11" * 1024 + bytes(3072)
