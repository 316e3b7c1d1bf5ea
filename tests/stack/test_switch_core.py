# SPDX-License-Identifier: Apache-2.0
"""Frames through a switch: their ports, order, rate and ECN marks."""

from __future__ import annotations

import socket
import struct
from collections import Counter

import pytest

from tests.kernel.frames import ARP, ethernet, ipv4, pfc
from tests.stack.switch_rig import MS, MTU_FRAME, NEVER, Class, S, rig

A, B, C = (bytes((2, 0, 0, 0, 0, last)) for last in (1, 2, 3))
DSCP = 26
PRIORITY = DSCP // 8  # the rig's table
LOSSY = {priority: Class(alpha=8.0) for priority in range(8)}


def text(mac: bytes) -> str:
    return mac.hex(":")


def packet(
    to: str = "10.0.0.9", ecn: int = 2, ttl: int = 64, source_port: int = 7, dscp: int = DSCP
) -> bytearray:
    """A whole frame of UDP over IPv4."""
    udp = struct.pack("!HHHH", source_port, 4791, 28, 0) + bytes(20)
    head = struct.pack(
        "!BBHHHBBH4s4s", 0x45, dscp << 2 | ecn, 20 + len(udp), 0, 0, ttl, 17, 0,
        socket.inet_aton("10.0.0.1"), socket.inet_aton(to),
    )  # fmt: skip
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return bytearray(bytes((2, 0x48, 0, 0, 0xFF, 1)) + A + b"\x08\x00" + head + udp)


def checksum(header: bytes | bytearray) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(to: bytes, source: bytes, size: int = 64) -> bytearray:
    return bytearray(to + source + b"\x88\xb5" + bytes(size - 14))


def test_a_bridge_learns_floods_and_keeps_what_is_fixed() -> None:
    with rig(ports=4) as made:
        assert made.receive(1, frame(B, A))[0] == {0, 2, 3}
        assert made.receive(2, frame(A, B))[0] == {1}
        assert made.receive(1, frame(B, A))[0] == {2}
        assert made.receive(3, frame(A, B))[0] == {1}  # B has moved
        assert made.receive(1, frame(B, A))[0] == {3}
        assert made.fix(C, 0)
        assert made.receive(2, frame(A, C))[0] == {1}
        assert made.receive(1, frame(C, A))[0] == {0}
        assert made.receive(0, frame(C, A))[0] == set()
        assert made.receive(1, bytearray(ethernet(bytes(46), to="ff:ff:ff:ff:ff:ff", kind=ARP)))[0] == {
            0,
            2,
            3,
        }
        counters = made.counters()
        assert counters.ports["flooded"].tolist() == [0, 2, 0, 0]
        assert counters.dropped == {"drop_same_port": 1}


def test_senders_beyond_the_table_size_are_flooded() -> None:
    with rig(ports=3) as made:
        macs = [struct.pack("!BBI", 2, 1, number) for number in range(10_000)]
        for mac in macs:
            made.receive(1, frame(B, mac))
        found = Counter(tuple(sorted(made.receive(0, frame(mac, A))[0])) for mac in macs)
        assert set(found) == {(1,), (1, 2)}
        assert 2000 < found[1,] <= 4096


def test_the_mac_of_no_interface_is_not_in_the_table() -> None:
    """0 marks a free slot: a frame to it is flooded, and it can neither be learnt nor be fixed."""
    nobody = bytes(6)
    with rig(ports=3) as made:
        assert made.receive(1, frame(nobody, A))[0] == {0, 2}
        assert made.receive(2, frame(A, nobody))[0] == {1}
        assert made.receive(1, frame(nobody, A))[0] == {0, 2}
        assert not made.fix(nobody, 2)
        assert made.receive(1, frame(nobody, A))[0] == {0, 2}


@pytest.mark.parametrize("to", [B, b"\xff" * 6], ids=["known", "flooded"])
def test_frames_that_are_too_long_are_counted(to: bytes) -> None:
    """As long as the MTU and a VLAN tag allow, and one byte longer."""
    with rig(ports=3) as made:
        made.fix(B, 2)
        assert made.receive(1, frame(to, A, MTU_FRAME + 4))[0]
        assert made.counters().dropped == {}
        assert made.receive(1, frame(to, A, MTU_FRAME + 5))[0] == set()
        assert made.counters().dropped == {"drop_too_long": 1}
        assert made.counters().ports["drop_too_long"].tolist() == [0, 1, 0]


def test_control_frames_end_here_and_priority_follows_dscp() -> None:
    with rig(ports=2) as made:
        made.fix(bytes(packet()[:6]), 0)
        assert made.receive(1, packet()) == ({0}, PRIORITY)
        assert made.receive(1, packet(dscp=0))[1] == 0
        assert made.receive(1, frame(bytes(packet()[:6]), A))[1] == 0
        assert made.receive(1, bytearray(pfc(1 << PRIORITY)))[0] == set()
        assert made.receive(1, frame(bytes.fromhex("0180c2000000"), A))[0] == set()
        assert made.receive(1, frame(B, A)[:13])[0] == set()
        port = made.counters().ports[1]
        assert (port["pfc_frames"], port["drop_control"], port["drop_truncated"]) == (1, 1, 1)
        assert port["priority"]["rx_frames"].tolist() == [2, 0, 0, 1, 0, 0, 0, 0]


def test_a_router_takes_the_longest_prefix_and_rewrites_the_headers() -> None:
    with rig(ports=4) as made:
        made.routes([(0x0A000009, 0xFFFFFFFF, [2]), (0x0A000000, 0xFFFF0000, [3])])
        came = packet()
        left = bytearray(came)
        assert made.receive(1, left)[0] == {2}
        assert left[:12] == bytes((2, 0x48, 0, 0, 0xEE, 2, 2, 0x48, 0, 0, 0xFF, 2))
        assert left[22] == came[22] - 1 and checksum(left[14:34]) == 0
        assert left[14:22] + left[26:] == came[14:22] + came[26:]
        assert made.receive(1, packet(to="10.0.7.7"))[0] == {3}
        for spoiled in (packet(to="10.1.0.0"), packet(ttl=1), frame(B, A), packet(ttl=9)):
            spoiled[24] ^= spoiled[22] == 9
            assert made.receive(1, spoiled)[0] == set()
        assert made.counters().dropped == {
            "drop_no_route": 1, "drop_ttl": 1, "drop_not_ours": 1, "drop_header": 1,
        }  # fmt: skip


@pytest.mark.parametrize("ttl", range(2, 256, 23))
def test_a_routers_checksum_is_right_for_every_header(ttl: int) -> None:
    with rig(ports=3) as made:
        made.routes([(0, 0, [2])])
        for source_port in range(20):
            left = packet(to=f"10.{ttl}.{source_port}.255", ttl=ttl, dscp=source_port)
            assert made.receive(1, left)[0] == {2}
            assert checksum(left[14:34]) == 0


def test_equal_cost_paths_share_flows_and_keep_each_on_one_path() -> None:
    with rig(ports=5) as made:
        made.routes([(0, 0, [1, 2, 3, 4])])
        ways = [made.receive(1, packet(source_port=number))[0] for number in range(400)]
        assert ways == [made.receive(1, packet(source_port=number))[0] for number in range(400)]
        shares = Counter(min(way) for way in ways)
        assert set(shares) == {1, 2, 3, 4} and min(shares.values()) > 60


def leaving(weights: tuple[int, ...], count: int, priorities: tuple[int, ...], size: int = 1000) -> list[int]:
    """The priorities of the first frames that leave of queues that are all long."""
    with rig(shared=1 << 28, classes=LOSSY, weights=weights) as made:
        for priority in priorities:
            for _ in range(count):
                assert made.admit(1, 0, priority, size)
        taken = [made.take(0) for _ in range(count)]
        return [found.priority for found in taken if found]


def test_strict_the_highest_priority_goes_first() -> None:
    assert leaving((0,) * 8, 20, (0, 3, 7)) == [7] * 20


@pytest.mark.parametrize("size", [64, 1000, MTU_FRAME])
def test_weighted_priorities_share_by_their_weights(size: int) -> None:
    weights = (1, 1, 1, 4, 1, 1, 1, 2)
    shares = Counter(leaving(weights, 7000, (0, 3, 7), size))
    for priority, weight in ((0, 1), (3, 4), (7, 2)):
        assert shares[priority] * size == pytest.approx(weight * 1000 * size, abs=2 * weight * MTU_FRAME)


def test_a_paused_priority_waits_and_accumulates_no_share() -> None:
    with rig(shared=1 << 24, classes=LOSSY, weights=(1,) * 8, rate_bps=1_000_000_000, burst_ns=S) as made:
        for priority in (0, PRIORITY):
            for _ in range(400):
                assert made.admit(1, 0, priority, 1000)
        made.receive(0, bytearray(pfc(1 << PRIORITY, quanta=(0xFFFF,) * 8)), 5 * S)
        assert {made.take(0, 5 * S).priority for _ in range(200)} == {0}
        made.receive(0, bytearray(pfc(1 << PRIORITY, quanta=(0,) * 8)), 5 * S)
        after = Counter(made.take(0, 5 * S).priority for _ in range(200))
        assert abs(after[0] - after[PRIORITY]) <= 2 * MTU_FRAME / 1000


def test_a_port_sends_at_its_rate_and_says_when_it_goes_on() -> None:
    rate, size = 100_000_000, 1000
    with rig(shared=1 << 24, classes=LOSSY, rate_bps=rate) as made:
        for _ in range(200):
            assert made.admit(1, 0, 0, size)
        now, left = 5 * S, 0
        while made.take(0, now):
            left += 1
            assert made.take(0, now) is None
            now = made.next_ns(0, now)
        assert left == 200
        assert now == NEVER
        assert made.counters().ports["priority"]["tx_bytes"][0][0] == 200 * size
    with rig(shared=1 << 24, classes=LOSSY, rate_bps=rate, burst_ns=4 * MS) as made:
        for _ in range(200):
            assert made.admit(1, 0, 0, size)
        at_once = 0
        while made.take(0, 5 * S):
            at_once += 1
        assert at_once == 4 * MS * rate // (8 * S * size) + 1  # what a late port catches up with


@pytest.mark.parametrize(("length", "share"), [(50_000, 0.0), (150_000, 0.1), (250_000, 0.2), (500_000, 1.0)])
def test_marks_follow_the_length_of_the_queue(length: int, share: float) -> None:
    tries = 4000
    marking = (PRIORITY, 100_000, 350_000, 0.3333)
    classes = {PRIORITY: Class(alpha=100.0)}
    with rig(shared=1 << 26, classes=classes, marking=marking) as made:
        for _ in range(length // 1000):
            assert made.admit(1, 0, PRIORITY, 1000)
        marked = 0
        for _ in range(tries):
            came = packet()
            left = bytearray(came)
            assert made.admit(1, 0, PRIORITY, 1000, frame=left)
            assert made.take(0)
            assert checksum(left[14:34]) == 0
            is_marked = left[15] & 3 == 3
            assert is_marked or left == came
            marked += is_marked
        expected = 0.3333 * (length - 100_000) / 250_000 if 0 < share < 1 else share
        assert marked / tries == pytest.approx(expected, abs=0.03 if 0 < expected < 1 else 0)
        assert made.counters().ports["priority"]["ecn_marks"][0][PRIORITY] >= marked


def test_frames_that_are_not_ecn_capable_are_not_marked() -> None:
    with rig(shared=1 << 26, classes={PRIORITY: Class(alpha=9.0)}, marking=(PRIORITY, 0, 1, 1.0)) as made:
        assert made.admit(1, 0, PRIORITY, 1000)
        for ecn, after in ((0, 0), (1, 3), (2, 3), (3, 3)):
            came = packet(ecn=ecn)
            assert made.admit(1, 0, PRIORITY, 1000, frame=came)
            assert came[15] & 3 == after
        unknown = bytearray(ethernet(ipv4("10.0.0.9")[:10]))
        assert made.admit(1, 0, PRIORITY, 1000, frame=unknown + bytearray(60))
