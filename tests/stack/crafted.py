# SPDX-License-Identifier: Apache-2.0
"""Frames built and parsed by scapy: an oracle that is independent of the stack."""

from __future__ import annotations

import logging
from ipaddress import IPv4Address
from typing import Any

from tests.stack.link import IPS, MACS, Side

logging.getLogger("scapy.runtime").setLevel(logging.ERROR)  # its warnings about this machine's routes

from scapy.contrib.roce import AETH, BTH  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.layers.l2 import Dot1Q, Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

__all__ = ["AETH", "BTH", "IP", "UDP", "Dot1Q", "Ether", "Raw", "crafted", "rebuilt"]


def crafted(to: Side, payload: bytes = b"", sender: int = 0, link: Any = None, **bth: Any) -> bytes:
    """A frame to a side's pair from its peer, with lengths, checksums and ICRC right; `bth` are scapy's fields."""
    header = link or Ether(dst=MACS[1 - sender], src=MACS[sender])
    bth.setdefault("padcount", -len(payload) % 4)
    bth.setdefault("dqpn", to.qpn)
    pad = bytes(bth["padcount"])
    source, target = (str(IPv4Address(IPS[index])) for index in (sender, 1 - sender))
    datagram = IP(src=source, dst=target, id=0, flags="DF") / UDP(sport=50000, dport=4791, chksum=0)
    return bytes(header / datagram / BTH(**bth) / Raw(payload + pad))


def rebuilt(frame: bytes) -> bytes:
    """The frame scapy builds from the same values, with its own lengths, checksums and ICRC."""
    packet = Ether(frame)
    packet[BTH].icrc = None
    packet[IP].chksum = packet[IP].len = packet[UDP].len = None
    return bytes(packet)
