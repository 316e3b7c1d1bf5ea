# SPDX-License-Identifier: Apache-2.0
"""Wire formats: round trips, known bytes, and whole frames compared with scapy."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsnet.stack.building import FOLDER
from hipsnet.stack.roce.core import Core
from tests.stack.crafted import crafted, layers, rebuilt
from tests.stack.link import DROPS, MACS, Faults, Link, connect
from tests.stack.test_rc import LOSSY, content, done

# A header's bytes beside what they say.
KNOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "ethernet": ("0180c2000001 020000000001 8808", {"type": 0x8808, "to": b"\x01\x80\xc2\0\0\1"}),
    "vlan": ("6005 0800", {"priority": 3, "vid": 5, "type": 0x0800}),
    "ipv4": (
        "45 69 0040 1234 4000 3f 11 bc80 ac100a63 ac100a0c",
        {"dscp": 26, "ecn": 1, "total": 64, "id": 0x1234, "ttl": 63, "protocol": 17, "from": 0xAC100A63},
    ),
    "udp": ("c000 12b7 0030 0000", {"from": 0xC000, "to": 4791, "length": 48}),
    "bth": (
        "0a f0 ffff 40 000011 80 fffffe",
        {"opcode": 10, "pad": 3, "solicited": True, "becn": True, "fecn": False, "qpn": 17, "psn": 0xFFFFFE},
    ),
    "reth": ("00007f0000001000 00000208 00000400", {"address": 0x7F0000001000, "key": 520, "length": 1024}),
    "aeth": ("60 000102", {"syndrome": 0x60, "msn": 258}),
    "pfc": (
        "0180c2000001 020000000001 8808 0101 0009 ffff 0000 0000 0001 0000 0000 0000 0000" + "00" * 26,
        {"enabled": 9, "quanta": [0xFFFF, 0, 0, 1, 0, 0, 0, 0]},
    ),
}
# Frames that rdma_rxe of Linux 6.1 has sent, as they came out of the cable.
CAPTURED = {
    "a SEND of 5 bytes": (
        "020000000001020000000002080045000034950f4000401191a70a0000020a000001e45d12b700200000"
        "0430ffff0014e04080fffff00001020304000000f1e63c90",
        {"bth.opcode": 0x04, "bth.psn": 0xFFFFF0, "bth.pad": 3, "bth.qpn": 0x14E040, "payload": 5},
    ),
    "the end of a SEND with immediate": (
        "02000000000102000000000208004500003495144000401191a20a0000020a000001e45d12b700200000"
        "0320ffff0014e04080fffff50200feca0001000066402bf2",
        {"bth.opcode": 0x03, "bth.psn": 0xFFFFF5, "bth.pad": 2, "immediate": 0x0200FECA, "payload": 2},
    ),
    "a WRITE of 3 bytes": (
        "02000000000102000000000208004500004095154000401191950a0000020a000001e45d12b7002c0000"
        "0a10ffff0014e04080fffff6000000000000100000004a19000000030001020075589fca",
        {"bth.opcode": 0x0A, "reth.address": 0x1000, "reth.key": 0x4A19, "reth.length": 3, "payload": 3},
    ),
    "a SEND of 2 bytes with immediate": (
        "02000000000102000000000208004500003495164000401191a00a0000020a000001e45d12b700200000"
        "0520ffff0014e04080fffff70700000000010000b49e0412",
        {"bth.opcode": 0x05, "immediate": 0x07000000, "bth.pad": 2, "bth.ack_request": True, "payload": 2},
    ),
    "an ACK": (
        "02000000000102000000000208004500003095354000401191850a0000020a000001e45d12b7001c0000"
        "1100ffff0014e04000ffffd01f000001dc517fa1",
        {"bth.opcode": 0x11, "bth.psn": 0xFFFFD0, "aeth.syndrome": 0x1F, "aeth.msn": 1, "payload": 0},
    ),
    "a NAK: remote access": (
        "02000000000102000000000208004500003095364000401191840a0000020a000001e45d12b7001c0000"
        "1100ffff0014e04000ffffd162000001d61cd1d6",
        {"bth.opcode": 0x11, "bth.psn": 0xFFFFD1, "aeth.syndrome": 0x62, "aeth.msn": 1, "payload": 0},
    ),
}
NAMES = list(KNOWN)


@pytest.fixture(scope="module")
def wire(core: Core) -> Core:
    files = ("wire/ip.h", "wire/pfc.h", "wire/roce.h", "roce/packet.h")
    headers = "".join((FOLDER / name).read_text() for name in files)
    structs = "\n".join(re.findall(r"^struct \w+ {.*?^};", headers, re.MULTILINE | re.DOTALL))
    faces = [
        f"bool face_{name}_parse(const u8 *at, u32 bytes, struct {name} *value);\n"
        f"bool face_{name}_emit(u8 *at, u32 bytes, const struct {name} *value);"
        for name in NAMES
    ]
    faces.append("u32 face_packet(u8 *frame, u32 bytes, struct packet *value);")
    structs = structs.replace("MAC_BYTES", "6").replace("PRIORITIES", "8")
    core.ffi.cdef(re.sub(r"/\*.*?\*/", "", structs + "\n".join(faces), flags=re.DOTALL))
    return core


def parsed(wire: Core, name: str, data: bytes) -> Any:
    """The value, or None if the bytes are refused."""
    value = wire.ffi.new(f"struct {name} *")
    exact = wire.ffi.new("u8[]", data) if data else wire.ffi.NULL
    return value if getattr(wire.lib, f"face_{name}_parse")(exact, len(data), value) else None


def emitted(wire: Core, name: str, value: Any, size: int = 64) -> bytes | None:
    buffer = wire.ffi.new("u8[]", b"\xee" * 64)
    done = getattr(wire.lib, f"face_{name}_emit")(buffer, size, value)
    return bytes(wire.ffi.buffer(buffer, 64)) if done else None


@pytest.mark.parametrize("name", NAMES)
def test_known_bytes(wire: Core, name: str) -> None:
    data, fields = bytes.fromhex(KNOWN[name][0]), KNOWN[name][1]
    value = parsed(wire, name, data)
    for field, expected in fields.items():
        found = getattr(value, field)
        found = found if isinstance(found, int) else type(expected)(found)
        assert found == expected, field
    whole = emitted(wire, name, value)
    assert whole == data + b"\xee" * (64 - len(data))


@pytest.mark.parametrize("name", NAMES)
def test_short_input_or_output_is_refused(wire: Core, name: str) -> None:
    data = bytes.fromhex(KNOWN[name][0])
    needed = 34 if name == "pfc" else len(data)  # its pad need not be there
    value = parsed(wire, name, data)
    for size in range(len(data)):
        assert (parsed(wire, name, data[:size]) is None) == (size < needed)
        assert emitted(wire, name, value, size=size) is None


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(NAMES), data=st.binary(min_size=60, max_size=60))
def test_what_is_parsed_is_emitted(wire: Core, name: str, data: bytes) -> None:
    """Any accepted bytes have the same value after they are emitted again."""
    value = parsed(wire, name, data)
    if value is not None:
        again = parsed(wire, name, emitted(wire, name, value) or b"")
        assert wire.ffi.buffer(again)[:] == wire.ffi.buffer(value)[:]


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [("ipv4", 0, 0x46), ("ipv4", 0, 0x65), ("ipv4", 6, 0x20), ("ipv4", 7, 1), ("ipv4", 11, 0), ("ipv4", 3, 19),
     ("udp", 5, 7), ("bth", 1, 1), ("pfc", 5, 2), ("pfc", 13, 9), ("pfc", 15, 2)],
)  # fmt: skip
def test_wrong_bytes(wire: Core, name: str, at: int, value: int) -> None:
    data = bytearray.fromhex(KNOWN[name][0])
    data[at] = value
    assert parsed(wire, name, bytes(data)) is None


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_frames(wire: Core, name: str) -> None:
    text, fields = CAPTURED[name]
    frame = bytes.fromhex(text)
    packet = wire.ffi.new("struct packet *")
    assert wire.lib.face_packet(frame, len(frame), packet) == len(DROPS)
    for path, expected in fields.items():
        assert reduce(getattr, path.split("."), packet) == expected, path
    assert rebuilt(frame) == frame


def test_scapy_makes_the_same_frames_of_the_same_values(core: Core) -> None:
    """Every kind of packet that two pairs exchange: lengths, checksums and ICRC as scapy has them."""
    sides = connect(core, psns=(0xFFFFFE, 77), rate_bps=10**10, congestion_control=True, dscp=10, **LOSSY)
    a, b = sides
    memory = b.register(5000)
    for size in (0, 1, 2, 3, 1024, 2500):
        b.receive(5000)
        b.receive(0)
        assert a.send(content(size))
        assert a.write(content(size), memory.address, memory.key)
        assert a.write(content(size), memory.address, memory.key, immediate=0xABCD)
        assert a.send(content(size), immediate=7) == b.send(b"") or b.receive(5000)
    b.receive(5000)
    link = Link(sides, Faults(loss=0.1, mark=0.3))
    link.run(done(a, 20))
    for frame in link.frames:
        assert frame == rebuilt(frame)
    scapy = layers()
    opcodes = {scapy.Ether(frame)[scapy.BTH].opcode for frame in link.frames}
    assert opcodes >= {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x0A, 0x0B, 0x11, 0x81}


def test_fields_as_scapy_reads_them(core: Core) -> None:
    a, b = connect(core, psns=(0xFFFFFE, 77), dscp=10, ttl=9, source_port=50001)
    assert a.send(b"12345", immediate=0x01020304)
    scapy = layers()
    frame = scapy.Ether(a.transmit(1))
    assert (frame.dst, frame.src) == ("02:00:00:00:00:02", "02:00:00:00:00:01")
    assert (
        frame[scapy.IP].src,
        frame[scapy.IP].dst,
        frame[scapy.IP].tos,
        frame[scapy.IP].ttl,
    ) == ("10.0.0.1", "10.0.0.2", 40, 9)
    assert frame[scapy.IP].flags == "DF"
    assert (frame[scapy.UDP].sport, frame[scapy.UDP].dport, frame[scapy.UDP].chksum) == (
        50001,
        4791,
        0,
    )
    bth = frame[scapy.BTH]
    assert (bth.opcode, bth.padcount, bth.dqpn, bth.psn, bth.ackreq) == (5, 3, b.qpn, 0xFFFFFE, 1)
    assert bytes(bth.payload)[:12] == b"\x01\x02\x03\x04" + b"12345" + bytes(3)
    assert b.take(bytes(frame), 1)
    ack = scapy.Ether(b.transmit(1))
    assert (ack[scapy.BTH].psn, ack[scapy.AETH].syndrome, ack[scapy.AETH].msn) == (
        0xFFFFFE,
        0x2C,
        0,
    )  # RNR, 0.64 ms
    b.receive(5)
    assert b.take(bytes(frame), 1)
    ack = scapy.Ether(b.transmit(1))
    assert (
        ack[scapy.BTH].opcode,
        ack[scapy.BTH].psn,
        ack[scapy.AETH].syndrome,
        ack[scapy.AETH].msn,
    ) == (0x11, 0xFFFFFE, 0x1F, 1)


def test_a_tagged_frame_is_taken(core: Core) -> None:
    _, b = connect(core)
    buffer = b.receive(4)
    scapy = layers()
    link = scapy.Ether(dst=MACS[1], src=MACS[0]) / scapy.Dot1Q(vlan=7, prio=3)
    assert b.take(crafted(b, b"1234", link=link, opcode=0x04), 1)
    assert bytes(buffer) == b"1234"


def test_an_ethernet_pad_is_no_part_of_the_packet(core: Core) -> None:
    """Cards pad to 60 bytes, and the ICRC is not at the frame's end then."""
    _, b = connect(core)
    b.receive(0)
    assert b.take(crafted(b, b"", opcode=0x04) + bytes(20), 1)
    assert b.poll()[0].status == core.lib.RC_OK


def test_any_bit_that_the_icrc_covers(core: Core) -> None:
    """A flipped bit is detected, except in the fields that routers may change: TTL, DSCP, UDP checksum, FECN."""
    for at in range(14, 14 + 20 + 8 + 12 + 12):
        _, b = connect(core)
        b.receive(64)
        frame = bytearray(crafted(b, b"12345678", opcode=0x04))
        frame[at] ^= 1
        if at < 34:  # a router would recompute the checksum
            scapy = layers()
            packet = scapy.Ether(bytes(frame))
            packet[scapy.IP].chksum = None
            frame = bytearray(bytes(packet)) if at not in (24, 25) else frame
        taken = b.take(bytes(frame), 1)
        assert taken == (at in (15, 22, 40, 41, 46)), at
        b.close()
