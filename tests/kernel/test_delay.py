# SPDX-License-Identifier: Apache-2.0
"""The programs on a delayed port: frames enter the ring whole and leave the cable unchanged."""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator

import pytest

from hipsnet.node import bpf, delay
from hipsnet.node.forwarding import set_loss
from tests.kernel.frames import ARP, NEXT, PORT1, VLAN, ethernet, ipv4, pfc
from tests.kernel.rig import Rig

DELAY_US = 7_000
RING_BYTES = 1 << 16
TAG = struct.pack("!HH", VLAN, 4095)
FRAMES = {
    "Ethernet header only": ethernet(b""),
    "ARP": ethernet(bytes(28), kind=ARP),
    "PFC": pfc(0x08),
    "largest of the first size": ethernet(bytes(range(114))),
    "smallest of the second size": ethernet(bytes(range(115))),
    "1500": ethernet(ipv4("10.0.0.1", bytes(range(256)) * 5 + bytes(200))),
    "RoCE with an MTU of 4096": ethernet(ipv4("10.0.0.1", bytes(range(256)) * 16)),
    "9000 in several buffers": ethernet(ipv4("10.0.0.1", bytes(range(256)) * 35)),
    "tagged by another program": ethernet(b"\x00\x07\x08\x00" + bytes(60), kind=VLAN),
    "tagged twice, 9022 bytes": ethernet(b"\x00\x07\x81\x00\x00\x08\x08\x00" + bytes(9000), kind=VLAN),
}
NODES = ("router", "switch")


@pytest.fixture(params=NODES)
def delayed(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A node with a delay and an empty ring on port 0."""
    rig: Rig = request.getfixturevalue(request.param)
    delay.set_delay(rig.fabric, rig.node, 0, DELAY_US, RING_BYTES)
    yield rig
    delay.set_delay(rig.fabric, rig.node, 0, 0, 0)


def held(rig: Rig) -> list[tuple[int, bytes]]:
    """Return (due time in ns, frame) of each entry in the ring of port 0, as the delay line reads it."""
    page = mmap.PAGESIZE
    with bpf.closing(bpf.open_map(delay.read(rig.fabric, rig.node)[0].ring)) as fd:
        size = bpf.map_info(fd).max_entries
        with mmap.mmap(fd, page + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page) as ring:
            (end,) = struct.unpack_from("Q", ring, 0)
            found, position = [], 0
            while position < end:
                (length,) = struct.unpack_from("I", ring, page + position)
                due_ns, frame_bytes = struct.unpack_from("QI", ring, page + position + 8)
                start = page + position + 8 + 12
                found.append((due_ns, ring[start : start + frame_bytes]))
                position += (8 + length + 7) & ~7
    return found


@pytest.mark.parametrize("description", FRAMES)
def test_a_frame_is_held_whole_and_is_not_counted_yet(delayed: Rig, description: str) -> None:
    frame = FRAMES[description]
    begun = time.monotonic_ns()
    verdict, out, reasons, counters = delayed.counted(frame)
    assert (verdict, out, reasons) == ("drop", frame, {})
    assert not counters["rx_frames"].any()
    ((due_ns, inside),) = held(delayed)
    assert inside == frame
    assert begun + DELAY_US * 1000 <= due_ns <= time.monotonic_ns() + DELAY_US * 1000


def test_frames_are_held_in_order(delayed: Rig) -> None:
    for frame in FRAMES.values():
        delayed.run(frame)
    found = held(delayed)
    assert [frame for _, frame in found] == list(FRAMES.values())
    assert found == sorted(found, key=lambda entry: entry[0])


@pytest.mark.parametrize("description", FRAMES)
def test_a_frame_out_of_the_delay_line_loses_its_tag_and_is_treated_as_any(
    delayed: Rig, description: str
) -> None:
    frame = FRAMES[description]
    delay.set_delay(delayed.fabric, delayed.node, 0, 0, 0)
    verdict, out, reasons, counters = delayed.counted(frame)
    delay.set_delay(delayed.fabric, delayed.node, 0, DELAY_US, RING_BYTES)
    again = delayed.counted(frame[:12] + TAG + frame[12:])
    assert again[:3] == (verdict, out, reasons)
    assert again[3].tobytes() == counters.tobytes()
    assert held(delayed) == []


def test_a_frame_in_transit_is_forwarded_after_its_delay(router: Rig) -> None:
    delay.set_delay(router.fabric, router.node, 0, DELAY_US, RING_BYTES)
    try:
        frame = ethernet(ipv4("10.1.0.1", bytes(8000), ttl=9))
        verdict, out, reasons, counters = router.counted(frame[:12] + TAG + frame[12:])
        assert (verdict, reasons) == ("redirect", {"forwarded": 1})
        assert out == ethernet(ipv4("10.1.0.1", bytes(8000), ttl=8), to=NEXT, source=PORT1)
        assert counters["tx_bytes"].tolist() == [0, len(frame), 0]
    finally:
        delay.set_delay(router.fabric, router.node, 0, 0, 0)


def test_what_a_full_ring_cannot_take_is_counted(delayed: Rig) -> None:
    frame, capacity = FRAMES["9000 in several buffers"], RING_BYTES // 9100
    results = [delayed.counted(frame)[2] for _ in range(capacity + 3)]
    assert results == [{}] * capacity + [{"drop_delay_full": 1}] * 3
    assert [inside for _, inside in held(delayed)] == [frame] * capacity


def test_a_frame_is_lost_once_only(delayed: Rig) -> None:
    frame = FRAMES["ARP"]
    set_loss(delayed.fabric, delayed.node, 0, 1_000_000)
    try:
        assert delayed.counted(frame)[2] == {"drop_loss": 1}
        assert held(delayed) == []
        assert delayed.counted(frame[:12] + TAG + frame[12:])[0] == "pass"
    finally:
        set_loss(delayed.fabric, delayed.node, 0, 0)


def test_other_ports_are_not_delayed(delayed: Rig) -> None:
    assert delayed.counted(FRAMES["ARP"], port=1)[0] == "pass"
    assert held(delayed) == []


def test_a_port_without_delay_ignores_the_delay_tag(router: Rig) -> None:
    frame = ethernet(bytes(60), kind=ARP)
    assert router.counted(frame[:12] + TAG + frame[12:])[2] == {"up_vlan": 1}


def test_a_delay_changes_in_place_and_its_ring_only_grows(delayed: Rig) -> None:
    (before, *_) = delay.read(delayed.fabric, delayed.node)
    delay.set_delay(delayed.fabric, delayed.node, 0, 1, RING_BYTES // 2)
    assert delay.read(delayed.fabric, delayed.node)[0] == before._replace(delay_us=1)
    delay.set_delay(delayed.fabric, delayed.node, 0, 1, RING_BYTES * 2)
    (after, *_) = delay.read(delayed.fabric, delayed.node)
    assert after.ring not in (0, before.ring) and after.ring_bytes == RING_BYTES * 2
    delay.set_delay(delayed.fabric, delayed.node, 0, 0, 0)
    assert delay.read(delayed.fabric, delayed.node)[0][1:] == (0, 0, 0)
