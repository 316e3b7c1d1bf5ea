# SPDX-License-Identifier: Apache-2.0
"""Frames built and parsed by scapy: an oracle that is independent of the stack."""

from __future__ import annotations

import logging
from functools import cache
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any

from tests.stack.link import IPS, MACS, Side


@cache
def layers() -> SimpleNamespace:
    """scapy's classes, imported on first use: scapy reads all routes and takes a while."""
    logging.getLogger("scapy.runtime").setLevel(logging.ERROR)  # its warnings about this machine's routes
    from scapy.contrib.roce import AETH, BTH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.packet import Raw

    return SimpleNamespace(AETH=AETH, BTH=BTH, IP=IP, UDP=UDP, Dot1Q=Dot1Q, Ether=Ether, Raw=Raw)


def crafted(to: Side, payload: bytes = b"", sender: int = 0, link: Any = None, **bth: Any) -> bytes:
    """A frame to a side's pair from its peer, with lengths, checksums and ICRC right; `bth` are scapy's fields."""
    scapy = layers()
    header = link or scapy.Ether(dst=MACS[1 - sender], src=MACS[sender])
    bth.setdefault("padcount", -len(payload) % 4)
    bth.setdefault("dqpn", to.qpn)
    pad = bytes(bth["padcount"])
    source, target = (str(IPv4Address(IPS[index])) for index in (sender, 1 - sender))
    datagram = scapy.IP(src=source, dst=target, id=0, flags="DF") / scapy.UDP(
        sport=50000, dport=4791, chksum=0
    )
    return bytes(header / datagram / scapy.BTH(**bth) / scapy.Raw(payload + pad))


def rebuilt(frame: bytes) -> bytes:
    """The frame scapy builds from the same values, with its own lengths, checksums and ICRC."""
    scapy = layers()
    packet = scapy.Ether(frame)
    packet[scapy.BTH].icrc = None
    packet[scapy.IP].chksum = packet[scapy.IP].len = packet[scapy.UDP].len = None
    return bytes(packet)
