# SPDX-License-Identifier: Apache-2.0
"""Requests that a reliable connection refuses, waits, retries, and failures."""

from __future__ import annotations

from typing import Any

import pytest

from hipsnet.stack.roce.core import Core
from tests.stack.crafted import crafted
from tests.stack.link import NEVER, Link, Memory, Side, connect
from tests.stack.test_rc import LOSSY, content, done, statuses

SECOND = 10**9


def refused_write(a: Side, b: Side, memory: Memory, address: int, key: int, size: int = 100) -> None:
    """A write that the peer must not let in: NAKed, counted, the end of the connection, no byte changed."""
    before = bytes(memory.view)
    b.receive(64, identity=7)
    assert a.write(content(size), address, key, identity=1)
    assert a.write(b"more", memory.address, memory.key, identity=2)
    link = Link((a, b))
    assert link.run(lambda: len(a.completions) == 2)
    assert [(one.id, one.status) for one in a.completions] == [
        (1, a.lib.RC_REMOTE_ACCESS),
        (2, a.lib.RC_FLUSHED),
    ]
    assert [(one.id, one.status) for one in b.completions] == [(7, b.lib.RC_FLUSHED)]
    assert a.lib.rc_state(a.pair) == b.lib.rc_state(b.pair) == a.lib.RC_ERROR
    assert (b.counters.tx_nak_access, a.counters.rx_nak_access) == (1, 1)
    assert bytes(memory.view) == before
    assert not a.send(b"x")


@pytest.mark.parametrize("flip", [0x0001, 0x10000, 0x80000000])
def test_a_wrong_key(core: Core, flip: int) -> None:
    a, b = connect(core)
    memory = b.register(4096)
    refused_write(a, b, memory, memory.address, memory.key ^ flip)


@pytest.mark.parametrize(
    ("offset", "size"),
    [(-1, 100), (4096 - 99, 100), (4096, 1), (0, 4097), (1 << 40, 10), (-(1 << 40), 10)],
)
def test_a_write_out_of_bounds(core: Core, offset: int, size: int) -> None:
    a, b = connect(core)
    memory = b.register(4096)
    refused_write(a, b, memory, memory.address + offset, memory.key, size)


def test_an_address_that_wraps_around(core: Core) -> None:
    a, b = connect(core)
    memory = b.register(4096)
    refused_write(a, b, memory, 2**64 - 50, memory.key)


def test_the_last_byte_of_a_region_can_be_written(core: Core) -> None:
    a, b = connect(core)
    memory = b.register(4096)
    assert a.write(b"\xff", memory.address + 4095, memory.key)
    assert a.write(b"", 0, 0)  # of no bytes: no key is asked for
    assert Link((a, b)).run(done(a, 2))
    assert statuses(a) == {core.lib.RC_OK}
    assert memory.read(4096) == bytes(4095) + b"\xff"


def test_a_key_revoked_in_the_middle_of_a_message(core: Core) -> None:
    a, b = connect(core, window=8)
    memory = b.register(64 * 1024)
    assert a.write(content(64 * 1024), memory.address, memory.key)
    link = Link((a, b))
    assert link.run(lambda: b.counters.rx_packets >= 16)
    assert core.lib.endpoint_deregister(b.endpoint, memory.key)
    assert not core.lib.endpoint_deregister(b.endpoint, memory.key)
    before = bytes(memory.view)
    assert link.run(done(a, 1))
    assert statuses(a) == {core.lib.RC_REMOTE_ACCESS}
    assert bytes(memory.view) == before


def test_a_lost_fatal_nak_is_repeated(core: Core) -> None:
    a, b = connect(core, **LOSSY)
    memory = b.register(4096)
    lost: list[bytes] = []
    link = Link((a, b), lose=lambda to, frame: to == 0 and len(lost) < 2 and not lost.append(frame))
    assert a.write(b"x", memory.address, memory.key ^ 1)
    assert link.run(done(a, 1))
    assert statuses(a) == {core.lib.RC_REMOTE_ACCESS}
    assert a.counters.timeouts == 2


def test_a_message_longer_than_the_receive(core: Core) -> None:
    a, b = connect(core)
    buffer = b.receive(3000, identity=3)
    b.receive(64, identity=4)
    assert a.send(content(3001))
    assert Link((a, b)).run(done(a, 1))
    assert statuses(a) == {core.lib.RC_REMOTE_INVALID}
    assert [(one.id, one.status) for one in b.completions] == [
        (3, core.lib.RC_LOCAL_LENGTH),
        (4, core.lib.RC_FLUSHED),
    ]
    assert bytes(buffer)[2048:] == bytes(952)  # the packet that did not fit was not begun


@pytest.mark.parametrize("opcode", [0x0C, 0x13, 0x14, 0x16, 0x17, 0x01, 0x02, 0x03, 0x07, 0x08, 0x09])
def test_a_request_that_cannot_be_served(core: Core, opcode: int) -> None:
    """Reads, atomics, invalidations; the middle or the end of a message that never began."""
    a, b = connect(core)
    b.receive(64)
    assert a.send(content(64))
    assert a.transmit(1)
    assert b.take(crafted(b, content(1024), opcode=opcode), 1)
    assert a.take(b.transmit(1), 1)
    a.poll()
    assert statuses(a) == {core.lib.RC_REMOTE_INVALID}
    assert b.counters.tx_nak_invalid == 1


@pytest.mark.parametrize(
    ("opcode", "payload"),
    [(0x00, 1020), (0x00, 1028), (0x00, 0), (0x04, 1028), (0x06, 16 + 1020), (0x0A, 16 + 1028)],
)
def test_a_packet_of_a_wrong_length(core: Core, opcode: int, payload: int) -> None:
    """Each but the last has to be full, none may be longer than the path MTU."""
    _, b = connect(core, path_mtu=1024)
    memory = b.register(4096)
    buffer = b.receive(4096)
    reth = memory.address.to_bytes(8, "big") + memory.key.to_bytes(4, "big") + (2048).to_bytes(4, "big")
    assert b.take(crafted(b, (reth + bytes([1] * 1028))[:payload], opcode=opcode), 1)
    assert b.transmit(1)[54] == 0x61  # invalid request
    assert not any(memory.read(4096))
    assert not any(bytes(buffer))


def test_a_write_longer_or_shorter_than_announced(core: Core) -> None:
    for said, packets in ((1024, 2), (3000, 2)):
        _, b = connect(core, path_mtu=1024)
        memory = b.register(4096)
        reth = memory.address.to_bytes(8, "big") + memory.key.to_bytes(4, "big") + said.to_bytes(4, "big")
        assert b.take(crafted(b, reth + content(1024), opcode=0x06, psn=0), 1)
        if said > 1024:
            assert b.take(crafted(b, content(1000), opcode=0x08, psn=1, ackreq=1), 1)
        assert b.transmit(1)[54] == 0x61
        assert b.counters.rx_packets == packets - 1 - (said == 1024)


def test_rnr_waits_for_a_receive(core: Core) -> None:
    a, b = connect(core, min_rnr_timer=14)  # 1.28 ms
    link = Link((a, b))
    assert a.send(content(5000))
    start = link.now
    assert not link.run(done(a, 1), limit_ns=SECOND // 100)
    assert 6 <= b.counters.tx_nak_rnr <= 8
    assert a.counters.rx_nak_rnr == b.counters.tx_nak_rnr
    buffer = b.receive(5000)
    assert link.run(done(a, 1))
    assert statuses(a) | statuses(b) == {core.lib.RC_OK}
    assert bytes(buffer) == content(5000)
    assert a.counters.timeouts == 0
    assert link.now - start > SECOND // 100


@pytest.mark.parametrize("retries", [0, 3])
def test_rnr_retries_run_out(core: Core, retries: int) -> None:
    a, b = connect(core, rnr_retry=retries)
    assert a.write(b"x", 0, b.register(8, address=0).key, identity=5, immediate=1)
    assert Link((a, b)).run(done(a, 1))
    assert [(one.id, one.status) for one in a.completions] == [(5, core.lib.RC_RNR_RETRY_EXCEEDED)]
    assert b.counters.tx_nak_rnr == retries + 1
    assert b.counters.rx_packets == 0


def test_credits_spare_the_naks(core: Core) -> None:
    """A sender with credits sends at most one message beyond the posted receives."""
    naks = {}
    for credits in (False, True):
        a, b = connect(core, credits=credits)
        link = Link((a, b))
        b.receive(64)
        for _ in range(20):
            assert a.send(b"message")
        for count in range(1, 21):
            assert link.run(done(b, count))
            link.run(limit_ns=SECOND // 10)
            b.receive(64)
        assert link.run(done(a, 20))
        naks[credits] = a.counters.tx_packets
    assert naks[True] < naks[False] / 2


def test_time_outs_back_off_and_run_out(core: Core) -> None:
    a, b = connect(core, retry_count=3, timeout_ns=1_000_000)
    times: list[int] = []
    link = Link((a, b), lose=lambda _to, _frame: not times.append(link.now))
    assert a.send(b"nobody hears", identity=8)
    assert a.send(b"this neither", identity=9)
    assert link.run(done(a, 2))
    assert [(one.id, one.status) for one in a.completions] == [
        (8, core.lib.RC_RETRY_EXCEEDED),
        (9, core.lib.RC_FLUSHED),
    ]
    waits = [later - sooner for sooner, later in zip(times, times[2:], strict=False)][::2]
    assert waits == [1_000_000, 2_000_000, 4_000_000]
    assert (a.counters.timeouts, a.counters.repeated) == (4, 6)
    assert a.deadline() == NEVER


def test_an_answer_ends_the_back_off(core: Core) -> None:
    a, b = connect(core, timeout_ns=1_000_000)
    down = [True]
    link = Link((a, b), lose=lambda _to, _frame: down[0])
    memory = b.register(8192)
    assert a.write(content(8192), memory.address, memory.key)
    assert not link.run(done(a, 1), limit_ns=20_000_000)
    assert a.counters.timeouts == 4
    down[0] = False
    assert link.run(done(a, 1))
    assert memory.read(8192) == content(8192)
    assert core.lib.rc_state(a.pair) == core.lib.RC_CONNECTED


def black_hole(to: int, frame: bytes) -> bool:
    """A link of the path drops frames of more than 1514 bytes."""
    return len(frame) > 1514


@pytest.mark.parametrize("retries", [0, 3, 7])
def test_an_mtu_black_hole_ends_the_connection(core: Core, retries: int) -> None:
    """The short last packet arrives, and is NAKed; the long ones before it never do."""
    a, b = connect(core, path_mtu=4096, retry_count=retries, timeout_ns=10_000_000)
    memory = b.register(8292)
    assert a.write(content(8292), memory.address, memory.key, identity=1)
    assert a.write(b"more", memory.address, memory.key, identity=2)
    link = Link((a, b), lose=black_hole)
    start = link.now
    assert link.run(done(a, 2), limit_ns=SECOND)
    assert [(one.id, one.status) for one in a.completions] == [
        (1, core.lib.RC_SEQUENCE_RETRY_EXCEEDED),
        (2, core.lib.RC_FLUSHED),
    ]
    assert a.counters.rx_nak_sequence == b.counters.tx_nak_sequence == retries + 1
    assert a.counters.timeouts == 0
    assert link.now - start < 11_000_000  # the waits together are shorter than a time-out
    assert (a.deadline(), b.counters.rx_packets) == (NEVER, 0)


def test_losses_that_end_before_the_retries_are_recovered(core: Core) -> None:
    a, b = connect(core, path_mtu=4096, retry_count=7, timeout_ns=128_000_000)
    memory = b.register(8292)
    link = Link((a, b))
    for ends_after in (4, 6):  # the second time as many retries are left as the first time
        naks, completed = a.counters.rx_nak_sequence, len(a.completions)

        def lose(to: int, frame: bytes, most: int = naks + ends_after) -> bool:
            return black_hole(to, frame) and bool(a.counters.rx_nak_sequence < most)

        link.lose = lose
        assert a.write(content(8292, ends_after), memory.address, memory.key)
        assert link.run(done(a, completed + 1), limit_ns=SECOND)
        assert memory.read(8292) == content(8292, ends_after)
        assert a.counters.rx_nak_sequence == naks + ends_after
    assert statuses(a) == {core.lib.RC_OK}


def test_a_nak_that_comes_twice_counts_once(core: Core) -> None:
    a, b = connect(core, retry_count=1)
    memory = b.register(2148)
    assert a.write(content(2148), memory.address, memory.key)
    _first, second = a.transmit(1), a.transmit(1)
    assert b.take(second, 1)
    nak = b.transmit(1)
    assert a.take(nak, 1)
    assert a.take(nak, 1)
    assert Link((a, b)).run(done(a, 1))
    assert (statuses(a), memory.read(2148)) == ({core.lib.RC_OK}, content(2148))
    assert a.counters.rx_nak_sequence == 2


def test_abort_flushes_all(core: Core) -> None:
    a, b = connect(core)
    b.receive(4)
    for i in range(3):
        assert a.send(b"abc", identity=i)
    assert a.transmit(1)
    core.lib.rc_abort(a.pair)
    core.lib.rc_abort(b.pair)
    assert [(one.id, one.status) for one in a.poll()] == [(i, core.lib.RC_FLUSHED) for i in range(3)]
    assert [one.status for one in b.poll()] == [core.lib.RC_FLUSHED]
    assert (a.deadline(), a.transmit(10**12)) == (NEVER, b"")


@pytest.mark.parametrize(
    ("change", "drop"),
    [
        ({"dqpn": 0}, "no_pair"),
        ({"dqpn": 0xFFFFFF}, "no_pair"),
        ({"version": 1}, "bth_header"),
        ({"pkey": 0x7FFF}, "bth_header"),
        ({"opcode": 0x24}, "opcode"),
        ({"opcode": 0x64}, "opcode"),
        ({"icrc": 0x12345678}, "icrc"),
        ({"sender": 1}, "address"),
    ],
)
def test_frames_that_are_dropped(core: Core, change: dict[str, int], drop: str) -> None:
    _, b = connect(core)
    b.receive(64)
    assert not b.take(crafted(b, b"1234", **{"opcode": 0x04, **change}), 1)
    assert b.drops() == {drop: 1}
    assert b.deadline() == NEVER
    assert not b.poll()


def test_frames_of_other_protocols_are_dropped(core: Core) -> None:
    _, b = connect(core)
    good = crafted(b, b"1234", opcode=0x04)
    assert not b.take(b"", 1)
    assert not b.take(good[:13], 1)
    assert not b.take(good[:60], 1)
    assert b.drops() == {"truncated": 3}
    for at, value in ((13, 6), (14, 0x46), (24, 1), (23, 6), (37, 0), (39, 9)):
        assert not b.take(good[:at] + bytes([value]) + good[at + 1 :], 1)
    assert b.drops() == {"truncated": 3, "not_ipv4": 1, "ipv4_header": 3, "not_roce": 1, "lengths": 1}


def test_unsolicited_answers_are_dropped(core: Core) -> None:
    """ACKs and NAKs of PSNs that are not in flight change nothing."""
    a, b = connect(core)
    memory = b.register(4096)
    assert a.write(content(4096), memory.address, memory.key)
    for _ in range(4):
        assert a.transmit(1)
    for psn in (4, 5, 1000, 0x800000, 0xFFFFFE):
        for syndrome in (0x1F, 0x20, 0x60, 0x61, 0x62, 0x63, 0x40):
            assert a.take(crafted(a, bytes([syndrome, 0, 0, 9]), sender=1, opcode=0x11, psn=psn), 1)
    assert not a.poll()
    assert core.lib.rc_state(a.pair) == core.lib.RC_CONNECTED
    assert core.lib.rc_unacknowledged(a.pair) == 4
    assert a.counters.rx_stale_acks == 35


@pytest.mark.parametrize(
    "wrong",
    [
        {"path_mtu": 1500},
        {"path_mtu": 128},
        {"window": 0},
        {"retry_count": 8},
        {"peer_qpn": 1 << 24},
        {"timeout_ns": 0},
        {"min_rnr_timer": 32},
        {"dscp": 64},
        {"congestion_control": True},
    ],
)
def test_an_inconsistent_configuration_is_refused(core: Core, wrong: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        connect(core, **wrong)


def test_pairs_are_created_and_destroyed(core: Core) -> None:
    lib, endpoint = core.lib, core.lib.endpoint_create(4, 2, 3)
    pairs = [lib.rc_create(endpoint, 2, 2) for _ in range(4)]
    assert lib.rc_create(endpoint, 2, 2) == core.ffi.NULL
    assert lib.rc_create(endpoint, 3, 2) == core.ffi.NULL
    numbers = {lib.rc_qpn(pair) for pair in pairs}
    lib.rc_destroy(pairs[2])
    numbers.add(lib.rc_qpn(lib.rc_create(endpoint, 2, 2)))
    assert len(numbers) == 5  # the place again, under another number
    keys = [lib.endpoint_register(endpoint, core.ffi.NULL, 8, 0) for _ in range(3)]
    assert keys[0] and keys[1] and not keys[2]
    lib.endpoint_destroy(endpoint)
