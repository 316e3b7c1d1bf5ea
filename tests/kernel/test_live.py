# SPDX-License-Identifier: Apache-2.0
"""Frames on real cables, forwarded by XDP; the kernel's own forwarding is off."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from hipsnet.node.attaching import attach_cable, attach_forwarding
from hipsnet.node.forwarding import fill_table, frames_by_reason, read_counters
from tests.kernel.frames import NEXT, PORT0, PORT1, ethernet, ipv4
from tests.kernel.rig import MACS, TABLE, Rig, node, subtract


@pytest.fixture(scope="module")
def cabled() -> Iterator[Rig]:
    """The router, with the program of the other end on its cables."""

    def attach(fabric: str, name: str, ports: list[tuple[int, str, str]]) -> None:
        Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
        attach_forwarding(fabric, name, ports)
        attach_cable(fabric, f"{name}-ends", [(port, f"q{port}", mac) for port, mac in enumerate(MACS)])

    with node("cabled", attach) as rig:
        fill_table(rig.fabric, rig.node, TABLE)
        yield rig


def across(frame: bytes, into: str, out_of: str) -> bytes:
    """Send a frame on one cable and return the next IPv4 frame from another."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as receiver,
    ):
        sender.bind((into, 0))
        receiver.bind((out_of, 0x0800))
        receiver.settimeout(5)
        sender.send(frame)
        return receiver.recv(1 << 16)


@pytest.mark.parametrize(
    "size", [0, 1, 1400, 3500, 8972, 8980], ids=lambda size: f"{size + 20} bytes of IPv4"
)
def test_crosses_the_node_unchanged_but_for_macs_and_ttl(cabled: Rig, size: int) -> None:
    payload = bytes(index % 249 for index in range(size))
    before = read_counters(cabled.fabric, cabled.node)
    frame = ethernet(ipv4("10.1.0.7", payload, ttl=9), to=PORT0)
    arrived = cabled.inside(across, frame, "q0", "q1")
    counters = subtract(read_counters(cabled.fabric, cabled.node), before)
    assert arrived == ethernet(ipv4("10.1.0.7", payload, ttl=8), to=NEXT, source=PORT1)
    assert frames_by_reason(counters) == {"forwarded": 1}
    assert counters["rx_bytes"].tolist() == [len(frame), 0, 0]
    assert counters["tx_bytes"].tolist() == [0, len(frame), 0]


def set_mtu(name: str, mtu: int) -> None:
    with IPRoute() as netlink:
        (index,) = netlink.link_lookup(ifname=name)
        netlink.link("set", index=index, mtu=mtu)


def test_a_lower_mtu_is_seen_within_256_frames_of_a_cpu_and_a_higher_one_at_once(cabled: Rig) -> None:
    frame = ethernet(ipv4("10.1.0.7", bytes(2000), ttl=255))
    assert cabled.counted(frame)[2] == {"forwarded": 1}
    try:
        cabled.inside(set_mtu, "p1", 1500)
        for _ in range(256 * (os.cpu_count() or 1)):  # each CPU has its own count
            reasons = cabled.counted(frame)[2]
            if reasons == {"up_mtu": 1}:
                break
            assert reasons == {"forwarded": 1}
        assert reasons == {"up_mtu": 1}
    finally:
        cabled.inside(set_mtu, "p1", 9000)
    assert cabled.counted(frame)[2] == {"forwarded": 1}


def test_the_other_end_counts_what_it_hands_on(cabled: Rig) -> None:
    ends = "cabled-ends"
    before = read_counters(cabled.fabric, ends)
    cabled.inside(across, ethernet(ipv4("10.1.0.7")), "q0", "q1")
    counters = subtract(read_counters(cabled.fabric, ends), before)
    assert counters["passed"].tolist() == counters["rx_frames"].tolist() == [0, 1, 0]
