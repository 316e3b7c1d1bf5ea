# SPDX-License-Identifier: Apache-2.0
"""The headroom of a port, which holds what arrives after the port has sent XOFF, and the PFC thresholds.

IEEE 802.1Q Annex N (802.1Qbb): when a buffer reaches XOFF, the transmitter of the port may just have begun a
longest frame, which delays the PFC frame. Then the PFC frame is sent; it propagates to the peer, and the bits that
the peer sends meanwhile propagate back; MAC and PHY of both ends hold bits; the peer stops within the time of IEEE
802.3 31B.3.7, after the end of a frame that it has begun. At the cable's rate:

    headroom = own frame + PFC frame + 2 x cable + interface + response + burst + peer's frame

The response is measured at the peer's connector, so that it includes the peer's MAC and PHY; `interface` is that of
this port. A chip that stores packets in cells wastes buffer on short packets: see `occupancy`.

Public sources of the terms:

- the formula, the PFC frame (672 bit times), copper (5556 bit times of 10 Gbit/s for 100 m), and the interface at
  10 Gbit/s (MAC 8192 and XAUI 4096 bit times; a 10GBASE-T PHY 25600): Linux's ixgbe_type.h, "taken from 802.1bb
  Annex O"
- fibre: 198,000 km/s, and the cells: SONiC's cfgmgr/buffer_headroom_mellanox.lua
- the response: 802.3 31B.3.7, as SONiC's cfgmgr/buffer_headroom_barefoot.lua quotes it
- the interface at 100 Gbit/s, 122880 bit times: "Detecting, Troubleshooting, and Preventing Congestion in Storage
  Networks" (Cisco Press), chapter 7, which has 6144 at 25 and 24576 at 40 Gbit/s
- without a public source: the interface at 25 and 40 Gbit/s, more than that book's, and at the other rates, by time
  as those; twinax, 0.7 of the speed of light
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

from hipsnet import units
from hipsnet.topology.schema import Pfc, Topology

Phy = Literal["fibre", "twinax", "base-t"]

QUANTUM_BITS = 512
FRAMING_BYTES = 8 + 14 + 4 + 4 + 12  # preamble, Ethernet header, VLAN tag, FCS, gap between frames
PFC_FRAME_BYTES = 8 + 64 + 12
UNLIMITED_BPS = 10_000_000_000
"""The rate assumed for an unlimited cable of the lab."""
LAB_RESPONSE_US = 5000
"""The response time of a sender in the lab, a process that scheduling may delay."""

# By rate in bit/s, quanta of 512 bit times in which a port stops after it has received PFC: IEEE 802.3 31B.3.7.
RESPONSE_QUANTA = {
    10**9: 2,
    10 * 10**9: 67,
    25 * 10**9: 80,
    40 * 10**9: 118,
    50 * 10**9: 147,
    100 * 10**9: 394,
    200 * 10**9: 453,
    400 * 10**9: 905,
    800 * 10**9: 905,
}
# What MAC, PCS, FEC, PMA and PMD may hold of both directions. 50 Gbit/s takes the time of 25; 200, 400 and 800 take
# that of 100.
INTERFACE_QUANTA = {
    10**9: 2,
    10 * 10**9: 24,
    25 * 10**9: 80,
    40 * 10**9: 64,
    50 * 10**9: 160,
    100 * 10**9: 240,
    200 * 10**9: 480,
    400 * 10**9: 960,
    800 * 10**9: 1920,
}
BASE_T_INTERFACE_QUANTA, BASE_T_RESPONSE_QUANTA = 50, 7
"""Additional quanta of a 10GBASE-T PHY (25600 bit times, 802.3 55.11), and of the response of its peer."""
NS_PER_M = {"fibre": 5.06, "twinax": 4.77, "base-t": 5.56}


@dataclass(frozen=True)
class Link:
    """The quantities that determine the headroom of a port."""

    rate_bps: int
    mtu: int
    cable_m: float
    delay_us: int = 0
    phy: Phy = "fibre"
    response_us: float | None = None
    burst_bytes: int = 0
    cell_bytes: int = 1

    @property
    def frame_bytes(self) -> int:
        """Bytes of the longest frame on the wire, framing included."""
        return self.mtu + FRAMING_BYTES


@dataclass(frozen=True)
class Term:
    """One part of the headroom: its name, its cause, and its bytes at the cable's rate."""

    name: str
    text: str
    bytes: int


@dataclass(frozen=True)
class Thresholds:
    """The buffer thresholds of a priority in bytes, the fields of `struct buffer_class` of the soft switch.

    `xoff` 0: the limit is `alpha` times the free shared buffer. `xon` 0: XON is sent when the queue is
    `hysteresis` below its limit.
    """

    lossless: bool
    reserved: int
    headroom: int
    xoff: int
    xon: int
    alpha: float
    hysteresis: int


def terms(link: Link) -> tuple[Term, ...]:
    """The parts of the headroom, in the order in which they happen."""
    own = PFC_FRAME_BYTES, link.frame_bytes
    cells = Fraction(1) if link.cell_bytes <= 1 else occupancy(link.cell_bytes)
    found = [
        ("own frame", f"begun before the PFC frame, MTU {link.mtu}", own[1]),
        ("PFC frame", "64 B and its framing", own[0]),
        ("cable", _cable_text(link), _bytes(link, 2 * _way_ns(link))),
        _interface(link),
        _response(link),
    ]
    if link.burst_bytes:
        found.append(("burst", "the burst of a paced sender", link.burst_bytes))
    if cells > 1:
        lost = ceil((cells - 1) * sum(size for *_, size in found))
        found.append(("cells", f"short packets in cells of {link.cell_bytes} B", lost))
    found.append(("peer's frame", f"begun when it obeys, MTU {link.mtu}", link.frame_bytes))
    return tuple(Term(*part) for part in found)


def headroom_bytes(link: Link) -> int:
    """The sum of the parts: with less, packets can be lost."""
    return sum(term.bytes for term in terms(link))


def occupancy(cell_bytes: int) -> Fraction:
    """The ratio of the cells that packets occupy to their bytes on the wire, at worst.

    The worst case is 64 bytes in a cell, or one byte more than a full cell (SONiC's headroom calculators).
    """
    if cell_bytes > 128:
        return Fraction(cell_bytes, 64)
    return Fraction(2 * cell_bytes, 1 + cell_bytes)


def burst_bytes(rate_bps: int, mtu: int) -> int:
    """Return the burst of a shaped cable of the lab: two milliseconds at its rate, at least two frames.

    With a larger burst, small messages are faster than the cable. A smaller burst costs rate, because a sender that
    is delayed by scheduling cannot catch up (one millisecond: 2 % of an all-reduce of 64 MiB).
    """
    return max(2 * (mtu + 14), rate_bps // 8 // 500)


def link_of(topology: Topology, pfc: Pfc) -> Link:
    """The link parameters of a fabric; peers in a lab are processes with their response time."""
    rate_bps, mtu, in_lab = (
        topology.link.rate_bps or UNLIMITED_BPS,
        topology.link.mtu,
        topology.nodes == "lab",
    )
    return Link(
        rate_bps,
        mtu,
        pfc.cable_m,
        topology.link.delay_us,
        pfc.phy,
        pfc.response_us if pfc.response else LAB_RESPONSE_US if in_lab else None,
        burst_bytes(rate_bps, mtu) if in_lab else 0,
        units.parse_size(pfc.cell),
    )


def thresholds(topology: Topology) -> tuple[Thresholds, ...]:
    """The thresholds of priorities 0 to 7 of every port: from the file, otherwise derived."""
    frame, pfc = topology.link.mtu + 14, topology.pfc
    lossy = Thresholds(False, 2 * frame, 0, 0, 0, pfc.alpha if pfc else 1.0, 0)
    if pfc is None:
        return (lossy,) * 8
    room = units.parse_size(pfc.headroom) if pfc.headroom else headroom_bytes(link_of(topology, pfc))
    xoff = units.parse_size(pfc.xoff) if pfc.xoff else 0
    lossless = Thresholds(True, 2 * frame, room, xoff, _xon(pfc, xoff, frame), pfc.alpha, 2 * frame)
    return tuple(lossless if priority in pfc.priorities else lossy for priority in range(8))


def _xon(pfc: Pfc, xoff: int, frame: int) -> int:
    """Two frames below XOFF, so that not every frame causes a PFC frame; at least half of XOFF."""
    if pfc.xon:
        return units.parse_size(pfc.xon)
    return max(xoff - 2 * frame, xoff // 2)


def misfits(topology: Topology, pfc: Pfc) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of `pfc` whose values can lose packets, with the value found and the values allowed."""
    xoff, xon = (units.parse_size(size) if size else None for size in (pfc.xoff, pfc.xon))
    if xon is not None and xoff is not None and xon >= xoff:
        yield "xon", str(pfc.xon), f"less than xoff, {pfc.xoff}"
    link = link_of(topology, pfc)
    least = headroom_bytes(link)
    rate = units.format_rate(link.rate_bps)
    if pfc.headroom and units.parse_size(pfc.headroom) < least:
        reason = f"{rate}, {link.cable_m:g} m and MTU {link.mtu} require it (`hipsnet pfc explain` shows the parts)"
        yield "headroom", pfc.headroom, f"{least}B or more: {reason}"
        return
    if pfc.buffer is None:
        return
    lossless = next(found for found in thresholds(topology) if found.lossless)
    # At least one frame must fit below XOFF, or every frame would cause a pause.
    each = lossless.headroom + (lossless.xoff or link.mtu + 14)
    needed = each * len(pfc.priorities)
    if units.parse_size(pfc.buffer) < needed:
        parts = f"{len(pfc.priorities)} x (headroom {lossless.headroom}B + XOFF {each - lossless.headroom}B)"
        yield "buffer", pfc.buffer, f"{needed}B or more: {parts}; or a shorter cable, lower xoff or MTU"


def _bytes(link: Link, duration_ns: float) -> int:
    return ceil(round(link.rate_bps * duration_ns, 3) / 8e9)


def _way_ns(link: Link) -> float:
    return link.cable_m * NS_PER_M[link.phy] + link.delay_us * 1000


def _cable_text(link: Link) -> str:
    delay = f" and {units.format_time(link.delay_us)} of added delay" if link.delay_us else ""
    return f"there and back, {link.cable_m:g} m of {link.phy}, {NS_PER_M[link.phy]:g} ns/m{delay}"


def _interface(link: Link) -> tuple[str, str, int]:
    quanta, speed = _of_rate(INTERFACE_QUANTA, link.rate_bps)
    if link.phy == "base-t":
        quanta += BASE_T_INTERFACE_QUANTA
    return "interface", f"own MAC and PHY, {quanta} quanta{speed}", quanta * QUANTUM_BITS // 8


def _response(link: Link) -> tuple[str, str, int]:
    if link.response_us is not None:
        return "response", f"of the peer, {link.response_us:g} us", _bytes(link, link.response_us * 1000)
    quanta, speed = _of_rate(RESPONSE_QUANTA, link.rate_bps)
    if link.phy == "base-t":
        quanta += BASE_T_RESPONSE_QUANTA
    return "response", f"of the peer, {quanta} quanta{speed} (802.3 31B.3.7)", quanta * QUANTUM_BITS // 8


def _of_rate(table: dict[int, int], rate_bps: int) -> tuple[int, str]:
    """The quanta of the slowest rate that is not slower; beyond the table they grow with the rate."""
    for rate, quanta in table.items():
        if rate >= rate_bps:
            return quanta, "" if rate == rate_bps else f" of {units.format_rate(rate)}"
    last, quanta = max(table.items())
    return ceil(quanta * rate_bps / last), ""
