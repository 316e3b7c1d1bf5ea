# SPDX-License-Identifier: Apache-2.0
"""The window of connections over AF_XDP: the rings on the path hold it, however late a process is."""

from __future__ import annotations

import pytest

from hipsnet.stack.xsk.sockets import RECEIVE_CHUNKS
from hipsnet.transport.xdp.window import FLIGHT_NS, LEAST, window

MS = 1_000_000


@pytest.mark.parametrize("path_mtu", [1024, 4096])
@pytest.mark.parametrize("rate_bps", [0, 10**8, 10**9, 10**11])
@pytest.mark.parametrize("connections", [1, 2, 8, 60])
def test_all_senders_of_a_receiver_fit_its_ring(path_mtu: int, rate_bps: int, connections: int) -> None:
    packets = window(path_mtu, rate_bps, 0, connections) * connections
    chunks = 2 if path_mtu == 4096 else 1
    assert packets * chunks < RECEIVE_CHUNKS  # and their ACKs fit as well
    if rate_bps and packets > LEAST * connections:
        assert packets * path_mtu * 8 <= rate_bps * FLIGHT_NS / 1e9


def test_cables_with_a_delay_hold_more() -> None:
    rate, near, far = 10**8, window(4096, 10**8, 0, 1), window(4096, 10**8, 10 * MS, 1)
    assert (far - near) * 4096 * 8 == pytest.approx(rate * 0.04, rel=0.05)
