# SPDX-License-Identifier: Apache-2.0
"""Frames for the tests of the XDP programs, built from their fields, with checksums over all bytes."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address

PORT0, PORT1, PORT2 = "02:48:00:aa:00:00", "02:48:00:aa:00:01", "02:48:00:aa:00:02"
PEER, NEXT, OTHER = "02:48:00:bb:00:00", "02:48:00:bb:00:01", "02:48:00:cc:00:09"
BROADCAST, MULTICAST, PFC_GROUP = "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:05", "01:80:c2:00:00:01"
IPV4, ARP, VLAN, QINQ, IPV6, MAC_CONTROL = 0x0800, 0x0806, 0x8100, 0x88A8, 0x86DD, 0x8808


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def ethernet(payload: bytes, to: str = PORT0, source: str = PEER, kind: int = IPV4) -> bytes:
    return mac(to) + mac(source) + struct.pack("!H", kind) + payload


def checksum(header: bytes) -> int:
    total = sum(word for (word,) in struct.iter_unpack("!H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def udp(port: int, payload: bytes = bytes(40)) -> bytes:
    return struct.pack("!4H", 50000, port, 8 + len(payload), 0) + payload


def ipv4(
    to: str,
    payload: bytes = bytes(range(64)),
    ttl: int = 64,
    options: bytes = b"",
    tos: int = 0,
    fragment: int = 0,
    source: str = "10.9.0.1",
    version: int = 4,
    ihl: int | None = None,
    protocol: int = 17,
    total: int | None = None,
    check: int | None = None,
) -> bytes:
    """An IPv4 packet; `fragment` is the word of flags and offset, `check` is added to the right checksum."""
    words = 5 + len(options) // 4
    fields = [
        version << 4 | (words if ihl is None else ihl),
        tos,
        4 * words + len(payload) if total is None else total,
        0x1234,
        fragment,
        ttl,
        protocol,
        0,
        IPv4Address(source).packed,
        IPv4Address(to).packed,
    ]
    shape = "!BBHHHBBH4s4s"
    fields[7] = (checksum(struct.pack(shape, *fields) + options) + (check or 0)) & 0xFFFF
    return struct.pack(shape, *fields) + options + payload


def pfc(
    enabled: int, quanta: tuple[int, ...] = (0xFFFF,) * 8, opcode: int = 0x0101, to: str = PFC_GROUP
) -> bytes:
    body = struct.pack("!HH8H", opcode, enabled, *quanta)
    return ethernet(body.ljust(46, b"\0"), to=to, kind=MAC_CONTROL)
