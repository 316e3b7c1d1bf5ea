# SPDX-License-Identifier: Apache-2.0
"""The forwarding program byte for byte, with the kernel's BPF_PROG_TEST_RUN."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kernel
from hipsnet.node.forwarding import frames_by_reason, set_loss
from tests.kernel.frames import (
    ARP,
    BROADCAST,
    IPV6,
    MAC_CONTROL,
    MULTICAST,
    NEXT,
    OTHER,
    PEER,
    PORT0,
    PORT1,
    PORT2,
    QINQ,
    VLAN,
    checksum,
    ethernet,
    ipv4,
    pfc,
    udp,
)
from tests.kernel.rig import Rig
from tests.kernel.sockets import endpoint

LOCAL, FAR, BACK, SMALL = "10.0.0.1", "10.1.9.9", "10.1.2.9", "10.2.0.1"
NOP = b"\x01\x01\x01\x00"
BIG = bytes(index % 251 for index in range(8900))
PAYLOAD = bytes(range(64))


@dataclass(frozen=True)
class Case:
    """`out` None: the frame is unchanged. `reason` names the one counter that increases."""

    description: str
    frame: bytes
    verdict: str
    reason: str
    out: bytes | None = None
    port: int = 0
    egress: int | None = None
    pfc: tuple[int, ...] = field(default=())


def up(description: str, frame: bytes, reason: str, port: int = 0) -> Case:
    return Case(description, frame, "pass", reason, port=port)


def handed(description: str, frame: bytes, reason: str, pfc: tuple[int, ...] = ()) -> Case:
    return Case(description, frame, "redirect", reason, pfc=pfc)


def dropped(description: str, frame: bytes, reason: str, pfc: tuple[int, ...] = ()) -> Case:
    return Case(description, frame, "drop", reason, pfc=pfc)


def sent(
    description: str, packet: bytes, after: bytes, egress: int = 1, port: int = 0, tail: bytes = b""
) -> Case:
    """A packet for `port` that leaves by `egress`; `tail` is padding behind the packet."""
    macs = (PORT0, PORT1, PORT2)
    hop = PEER if egress == 0 else NEXT
    return Case(
        description,
        ethernet(packet, to=macs[port]) + tail,
        "redirect",
        "forwarded",
        ethernet(after, to=hop, source=macs[egress]) + tail,
        port,
        egress,
    )


def tagged(kind: int) -> bytes:
    return ethernet(struct.pack("!HH", 5, 0x0800) + ipv4(FAR), kind=kind)


FORWARDED = (
    *(
        sent(f"source {source}", ipv4(FAR, source=source), ipv4(FAR, ttl=63, source=source))
        for source in ("1.0.0.0", "126.255.255.255", "128.0.0.0", "223.255.255.255", "240.0.0.0", "10.1.2.2")
    ),
    sent("UDP to a next hop", ipv4(FAR), ipv4(FAR, ttl=63)),
    sent("the longer prefix, out of the port it came in by", ipv4(BACK), ipv4(BACK, ttl=63), egress=0),
    sent("in by another port", ipv4(FAR), ipv4(FAR, ttl=63), port=2),
    sent("TTL 2", ipv4(FAR, ttl=2), ipv4(FAR, ttl=1)),
    sent("TTL 255", ipv4(FAR, ttl=255), ipv4(FAR, ttl=254)),
    sent("first fragment", ipv4(FAR, fragment=0x2000), ipv4(FAR, ttl=63, fragment=0x2000)),
    sent("later fragment", ipv4(FAR, fragment=0x00B9), ipv4(FAR, ttl=63, fragment=0x00B9)),
    sent("must not be fragmented", ipv4(FAR, fragment=0x4000), ipv4(FAR, ttl=63, fragment=0x4000)),
    sent("DSCP and ECN stay", ipv4(FAR, tos=0x6B), ipv4(FAR, ttl=63, tos=0x6B)),
    sent("no payload, padding stays", ipv4(FAR, b""), ipv4(FAR, b"", ttl=63), tail=b"\x5a" * 26),
    sent("header only", ipv4(FAR, b""), ipv4(FAR, b"", ttl=63)),
    sent(
        "largest that fits the egress port",
        ipv4(SMALL, BIG[:1480]),
        ipv4(SMALL, BIG[:1480], ttl=63),
        egress=2,
    ),
    sent("jumbo in several buffers", ipv4(FAR, BIG), ipv4(FAR, BIG, ttl=63)),
)
UP = (
    up("for an address of this node", ethernet(ipv4(LOCAL)), "local"),
    up("local inside a forwarded prefix", ethernet(ipv4("10.1.2.3")), "local"),
    up("local, TTL 0", ethernet(ipv4(LOCAL, ttl=0)), "local"),
    up("local, TTL 1", ethernet(ipv4(LOCAL, ttl=1)), "local"),
    up("local, with options", ethernet(ipv4(LOCAL, options=NOP)), "local"),
    up("local, jumbo in several buffers", ethernet(ipv4(LOCAL, BIG)), "local"),
    up("TTL 0", ethernet(ipv4(FAR, ttl=0)), "up_ttl"),
    up("TTL 1", ethernet(ipv4(FAR, ttl=1)), "up_ttl"),
    up("four bytes of options", ethernet(ipv4(FAR, options=NOP)), "up_options"),
    up("forty bytes of options", ethernet(ipv4(FAR, options=NOP * 10)), "up_options"),
    up("no route", ethernet(ipv4("10.8.0.1")), "up_no_route"),
    up("limited broadcast to our MAC", ethernet(ipv4("255.255.255.255")), "up_no_route"),
    up("next hop without MAC", ethernet(ipv4("10.3.0.1")), "up_unresolved"),
    up("next hop on a port that is not there", ethernet(ipv4("10.4.0.1")), "up_unresolved"),
    up("a byte too big for the egress port", ethernet(ipv4(SMALL, BIG[:1481])), "up_mtu"),
    up("ARP request", ethernet(bytes(46), to=BROADCAST, kind=ARP), "up_arp"),
    up("ARP answer", ethernet(bytes(46), kind=ARP), "up_arp"),
    up("ARP without a body", ethernet(b"", kind=ARP), "up_arp"),
    up("802.1Q tag", tagged(VLAN), "up_vlan"),
    up("802.1ad tag", tagged(QINQ), "up_vlan"),
    up("IPv6", ethernet(bytes(60), kind=IPV6), "up_protocol"),
    up("length instead of ethertype", ethernet(bytes(46), kind=46), "up_protocol"),
    up("broadcast", ethernet(ipv4(FAR), to=BROADCAST), "up_multicast"),
    up("multicast", ethernet(ipv4("224.0.0.5"), to=MULTICAST), "up_multicast"),
    up("another's MAC", ethernet(ipv4(FAR), to=OTHER), "up_foreign_mac"),
    up("the MAC of another port", ethernet(ipv4(FAR), to=PORT1), "up_foreign_mac"),
    up("the MAC of port 0 at port 1", ethernet(ipv4(FAR), to=PORT0), "up_foreign_mac", port=1),
)
DROPPED = (
    dropped("version 6 in IPv4", ethernet(ipv4(FAR, version=6)), "drop_version"),
    dropped("version 0", ethernet(ipv4(FAR, version=0)), "drop_version"),
    dropped("header of 0 bytes", ethernet(ipv4(FAR, ihl=0)), "drop_header_length"),
    dropped("header of 16 bytes", ethernet(ipv4(FAR, ihl=4)), "drop_header_length"),
    dropped("header beyond the frame", ethernet(ipv4(FAR, b"", ihl=6)), "drop_header_length"),
    dropped("total length 0", ethernet(ipv4(FAR, total=0)), "drop_total_length"),
    dropped("total length 19", ethernet(ipv4(FAR, total=19)), "drop_total_length"),
    dropped(
        "total length inside the options", ethernet(ipv4(FAR, options=NOP, total=23)), "drop_total_length"
    ),
    dropped("total length a byte beyond the frame", ethernet(ipv4(FAR, total=85)), "drop_total_length"),
    dropped("total length 65535", ethernet(ipv4(FAR, total=65535)), "drop_total_length"),
    dropped("checksum one too big", ethernet(ipv4(FAR, check=1)), "drop_checksum"),
    dropped("checksum of bytes swapped", ethernet(ipv4(LOCAL, check=0x0100)), "drop_checksum"),
    dropped("source 0.0.0.0", ethernet(ipv4(FAR, source="0.0.0.0")), "drop_martian"),
    dropped("source in network 0", ethernet(ipv4(LOCAL, source="0.1.2.3")), "drop_martian"),
    dropped("source in loopback", ethernet(ipv4(FAR, source="127.0.0.1")), "drop_martian"),
    dropped("source in loopback, for this node", ethernet(ipv4(LOCAL, source="127.9.9.9")), "drop_martian"),
    dropped("first multicast source", ethernet(ipv4(FAR, source="224.0.0.0")), "drop_martian"),
    dropped("last multicast source", ethernet(ipv4(LOCAL, source="239.255.255.255")), "drop_martian"),
    dropped("broadcast source", ethernet(ipv4(FAR, source="255.255.255.255")), "drop_martian"),
    dropped("our own address as source", ethernet(ipv4(FAR, source=LOCAL)), "drop_martian"),
    dropped("our own address to itself", ethernet(ipv4(LOCAL, source=LOCAL)), "drop_martian"),
    dropped("the address of another port as source", ethernet(ipv4(FAR, source="10.1.2.3")), "drop_martian"),
    dropped(
        "RoCE with our address as source", ethernet(ipv4(LOCAL, udp(4791), source=LOCAL)), "drop_martian"
    ),
    dropped("a source of ours, no route", ethernet(ipv4("10.8.0.1", source=LOCAL)), "drop_martian"),
    dropped("PFC, priority 3", pfc(0x08), "drop_pfc", (3,)),
    dropped("PFC, priorities 0 and 7", pfc(0x81), "drop_pfc", (0, 7)),
    dropped("PFC, all", pfc(0xFF), "drop_pfc", tuple(range(8))),
    dropped("PFC, resume", pfc(0x08, (0,) * 8), "drop_pfc", (3,)),
    dropped("PFC, none enabled", pfc(0x00), "drop_pfc"),
    dropped("PFC, reserved bits set", pfc(0xFF04), "drop_pfc", (2,)),
    dropped("PFC to a station address", pfc(0x08, to=PORT0), "drop_mac_control"),
    dropped("PAUSE of the whole link", pfc(0xFFFF, opcode=0x0001), "drop_mac_control"),
    dropped("PFC cut short", pfc(0x08)[:33], "drop_mac_control"),
    dropped("MAC control without a body", ethernet(b"", kind=MAC_CONTROL), "drop_mac_control"),
)

ROCE = udp(4791)
HANDED_OVER = (
    handed("RoCE", ethernet(ipv4(LOCAL, ROCE)), "local_roce"),
    handed("RoCE, TTL 1", ethernet(ipv4(LOCAL, ROCE, ttl=1)), "local_roce"),
    handed("RoCE, do not fragment", ethernet(ipv4(LOCAL, ROCE, fragment=0x4000)), "local_roce"),
    handed("RoCE, marked", ethernet(ipv4(LOCAL, ROCE, tos=0x6B)), "local_roce"),
    handed("RoCE, jumbo in several buffers", ethernet(ipv4(LOCAL, udp(4791, BIG))), "local_roce"),
    handed("PFC, priority 3", pfc(0x08), "local_pfc", (3,)),
    handed("PFC, resume", pfc(0x08, (0,) * 8), "local_pfc", (3,)),
)
NOT_HANDED_OVER = (
    up("UDP to another port", ethernet(ipv4(LOCAL, udp(4790))), "local"),
    up("TCP to that port", ethernet(ipv4(LOCAL, ROCE, protocol=6)), "local"),
    up("RoCE with options", ethernet(ipv4(LOCAL, ROCE, options=NOP)), "local"),
    up("first fragment", ethernet(ipv4(LOCAL, ROCE, fragment=0x2000)), "local"),
    up("later fragment", ethernet(ipv4(LOCAL, ROCE, fragment=0x0001)), "local"),
    up("UDP header cut short", ethernet(ipv4(LOCAL, ROCE[:7])), "local"),
    up("RoCE to another's MAC", ethernet(ipv4(LOCAL, ROCE), to=OTHER), "up_foreign_mac"),
    up("RoCE in a VLAN", tagged(VLAN), "up_vlan"),
    up("ARP", ethernet(bytes(46), to=BROADCAST, kind=ARP), "up_arp"),
    up("ping", ethernet(ipv4(LOCAL, protocol=1)), "local"),
    up("RoCE at a port without a socket", ethernet(ipv4(LOCAL, ROCE), to=PORT1), "local", port=1),
    dropped("RoCE with a wrong checksum", ethernet(ipv4(LOCAL, ROCE, check=1)), "drop_checksum"),
    dropped("PAUSE of the whole link", pfc(0xFFFF, opcode=0x0001), "drop_mac_control"),
    sent("RoCE for another", ipv4(FAR, ROCE), ipv4(FAR, ROCE, ttl=63)),
)


@pytest.mark.parametrize("case", FORWARDED + UP + DROPPED, ids=lambda case: case.description)
def test_case(router: Rig, case: Case) -> None:
    check(router, case)


@pytest.fixture(scope="module")
def roce_router(router: Rig) -> Iterator[Rig]:
    """The router with an endpoint at port 0."""
    with endpoint(router, 0):
        yield router


@pytest.mark.parametrize("case", HANDED_OVER + NOT_HANDED_OVER, ids=lambda case: case.description)
def test_case_with_an_endpoint(roce_router: Rig, case: Case) -> None:
    check(roce_router, case)


def test_without_an_endpoint_forwarding_is_unchanged(router: Rig) -> None:
    with endpoint(router, 2):
        assert router.counted(ethernet(ipv4(LOCAL, ROCE), to=PORT2), port=2)[2] == {"local_roce": 1}
    assert router.counted(ethernet(ipv4(LOCAL, ROCE), to=PORT2), port=2)[2] == {"local": 1}
    assert router.counted(pfc(0x08), port=2)[2] == {"drop_pfc": 1}


def check(router: Rig, case: Case) -> None:
    verdict, out, reasons, counters = router.counted(case.frame, case.port)
    assert (verdict, reasons) == (case.verdict, {case.reason: 1})
    assert out == (case.frame if case.out is None else case.out)
    assert counters["rx_frames"].tolist() == [int(port == case.port) for port in range(3)]
    assert counters["rx_bytes"].tolist() == [len(case.frame) * int(port == case.port) for port in range(3)]
    assert counters["tx_frames"].tolist() == [int(port == case.egress) for port in range(3)]
    assert counters["tx_bytes"].tolist() == [len(case.frame) * int(port == case.egress) for port in range(3)]
    assert counters["pfc"].sum(axis=0).tolist() == [int(priority in case.pfc) for priority in range(8)]


@pytest.mark.parametrize("size", range(14, 14 + 20 + 64))
def test_truncated_at_every_length(router: Rig, size: int) -> None:
    frame = ethernet(ipv4(FAR, PAYLOAD))[:size]
    verdict, out, reasons, _ = router.counted(frame)
    assert (verdict, out) == ("drop", frame)
    assert reasons == {"drop_truncated" if size < 34 else "drop_total_length": 1}


@pytest.mark.parametrize("size", range(34, 14 + 60 + 8))
def test_truncated_in_and_behind_options(router: Rig, size: int) -> None:
    frame = ethernet(ipv4(LOCAL, PAYLOAD[:8], options=NOP * 10))[:size]
    verdict, out, reasons, _ = router.counted(frame)
    assert (verdict, out) == ("drop", frame)
    assert reasons == {"drop_header_length" if size < 14 + 60 else "drop_total_length": 1}


@pytest.mark.parametrize(
    ("first_buffer", "reason"), [(14, "up_split_header"), (33, "up_split_header"), (34, "local")]
)
def test_headers_split_between_buffers(router: Rig, first_buffer: int, reason: str) -> None:
    frame = ethernet(ipv4(LOCAL, BIG))
    verdict, out, reasons, _ = router.counted(frame, first_buffer=first_buffer)
    assert (verdict, out, reasons) == ("pass", frame, {reason: 1})


def test_every_reason_is_in_the_tables() -> None:
    elsewhere = {"passed", "switched", "drop_no_switch", "drop_loss", "drop_delay_full"}
    elsewhere |= {"buffered", "drop_truncated", "up_split_header", "drop_storm"}
    assert {case.reason for case in FORWARDED + UP + DROPPED + HANDED_OVER} | elsewhere == set(
        kernel.reasons()
    )


def test_the_readme_lists_every_reason() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (kernel.FOLDER / "README.md").read_text(), re.MULTILINE)
    assert kernel.reasons().items() <= dict(rows).items()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ttl=st.integers(2, 255),
    tos=st.integers(0, 255),
    fragment=st.integers(0, 0xFFFF),
    host=st.integers(0, 0xFFFF),
    source=st.integers(11 << 24, (127 << 24) - 1),  # no martian
    payload=st.binary(max_size=80),
)
def test_checksum_follows_the_ttl(
    router: Rig, ttl: int, tos: int, fragment: int, host: int, source: int, payload: bytes
) -> None:
    def packet(hops: int) -> bytes:
        # 10.1.128.0/17 has no longer prefix inside.
        to = f"10.1.{128 | host >> 8}.{host & 255}"
        given_source = ".".join(str(byte) for byte in source.to_bytes(4, "big"))
        return ipv4(to, payload, hops, tos=tos, fragment=fragment, source=given_source)

    verdict, out = router.run(ethernet(packet(ttl)))
    assert verdict == "redirect"
    assert checksum(out[14:34]) == 0
    # Ones' complement has two zeros: where a full sum gives 0000, the update may give ffff.
    expected = ethernet(packet(ttl - 1), to=NEXT, source=PORT1)
    assert out == expected or (out[24:26], expected[24:26]) == (b"\xff\xff", b"\0\0")


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(min_size=14, max_size=120),
        st.binary(max_size=100).map(ethernet),
        st.tuples(st.integers(0x40, 0x4F), st.binary(min_size=19, max_size=100)).map(
            lambda parts: ethernet(bytes([parts[0]]) + parts[1])
        ),
    )
)
def test_any_bytes_are_counted_once_and_not_changed(router: Rig, frame: bytes) -> None:
    verdict, out, reasons, counters = router.counted(frame)
    (reason,) = reasons
    assert reasons == {reason: 1}
    assert counters["rx_frames"].sum() == 1
    expected = {"up": "pass", "local": "pass", "drop": "drop", "forwarded": "redirect"}
    assert verdict == expected[reason.partition("_")[0]]
    assert verdict == "redirect" or out == frame


@pytest.mark.parametrize(
    ("ppm", "least", "most"), [(0, 0, 0), (1_000_000, 20000, 20000), (250_000, 4600, 5400)]
)
def test_loss_at_ingress(router: Rig, ppm: int, least: int, most: int) -> None:
    set_loss(router.fabric, router.node, 1, ppm)
    try:
        frame = ethernet(ipv4(LOCAL), to=PORT1)
        _, out, _, counters = router.counted(frame, port=1, repeat=20000)
    finally:
        set_loss(router.fabric, router.node, 1, 0)
    reasons = frames_by_reason(counters)
    # The bounds at a quarter are 6 standard deviations wide.
    assert least <= reasons.get("drop_loss", 0) <= most
    assert reasons.get("drop_loss", 0) + reasons.get("local", 0) == 20000
    assert counters["rx_frames"].tolist() == [0, 20000, 0]
    assert out == frame
