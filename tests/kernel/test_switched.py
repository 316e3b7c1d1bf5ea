# SPDX-License-Identifier: Apache-2.0
"""A port of a soft switch: frames that the switch does not receive, and frames that the cable drops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hipsnet.node.attaching import attach_switched
from hipsnet.node.forwarding import set_loss
from tests.kernel.frames import BROADCAST, IPV6, OTHER, ethernet, ipv4, pfc
from tests.kernel.rig import Rig, node


@pytest.fixture(scope="module")
def port() -> Iterator[Rig]:
    """Three ports of a soft switch that is not running; tests/lab/test_lossless.py tests a running one."""
    with node("soft", attach_switched) as rig:
        yield rig


@pytest.mark.parametrize(
    "frame",
    [
        ethernet(ipv4("10.1.0.1"), to=OTHER),
        ethernet(bytes(46), to=BROADCAST),
        ethernet(bytes(46), kind=IPV6),
        ethernet(b""),
        ethernet(ipv4("10.1.0.1", bytes(8900))),
        pfc(0x08),
    ],
)
def test_nothing_reaches_the_kernel(port: Rig, frame: bytes) -> None:
    verdict, _, reasons, counters = port.counted(frame, port=2)
    assert (verdict, reasons) == ("drop", {"drop_no_switch": 1})
    assert counters["rx_bytes"].tolist() == [0, 0, len(frame)]


def test_the_cable_loses_first(port: Rig) -> None:
    set_loss(port.fabric, port.node, 0, 1_000_000)
    try:
        assert port.counted(ethernet(bytes(46)), port=0)[2] == {"drop_loss": 1}
    finally:
        set_loss(port.fabric, port.node, 0, 0)
