# SPDX-License-Identifier: Apache-2.0
"""The cable program: counters and losses at the end of a cable."""

from __future__ import annotations

import pytest

from hipsnet.node.forwarding import read_loss, set_loss
from tests.kernel.frames import BROADCAST, IPV6, MAC_CONTROL, OTHER, ethernet, ipv4, pfc
from tests.kernel.rig import Rig

FRAMES = {
    "IPv4 for another MAC": ethernet(ipv4("10.1.0.1"), to=OTHER),
    "broken IPv4": ethernet(ipv4("10.1.0.1", check=1)),
    "broadcast": ethernet(bytes(46), to=BROADCAST),
    "IPv6": ethernet(bytes(46), kind=IPV6),
    "Ethernet header only": ethernet(b""),
    "jumbo in several buffers": ethernet(ipv4("10.1.0.1", bytes(8900))),
    "PAUSE": pfc(0xFFFF, opcode=0x0001),
    "MAC control without a body": ethernet(b"", kind=MAC_CONTROL),
}


@pytest.mark.parametrize("description", FRAMES)
def test_every_frame_is_forwarded(switch: Rig, description: str) -> None:
    frame = FRAMES[description]
    verdict, out, reasons, counters = switch.counted(frame, port=2)
    assert (verdict, out, reasons) == ("pass", frame, {"passed": 1})
    assert counters["rx_bytes"].tolist() == [0, 0, len(frame)]
    assert not counters["pfc"].any()


def test_counts_pfc_by_priority(switch: Rig) -> None:
    verdict, _, reasons, counters = switch.counted(pfc(0x0A), port=1)
    assert (verdict, reasons) == ("pass", {"passed": 1})
    assert counters["pfc"].tolist() == [[0] * 8, [0, 1, 0, 1, 0, 0, 0, 0], [0] * 8]


def test_the_configured_loss_is_applied(switch: Rig) -> None:
    set_loss(switch.fabric, switch.node, 0, 1_000_000)
    try:
        assert read_loss(switch.fabric, switch.node) == (1_000_000, 0, 0)
        assert switch.counted(FRAMES["broadcast"], port=0)[2] == {"drop_loss": 1}
        assert switch.counted(FRAMES["broadcast"], port=1)[2] == {"passed": 1}
    finally:
        set_loss(switch.fabric, switch.node, 0, 0)
