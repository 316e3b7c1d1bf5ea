# SPDX-License-Identifier: Apache-2.0
"""Frames in transit through a server whose own endpoint is busy."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hipsnet.node import namespace
from hipsnet.stack.ports.loop import Stack
from hipsnet.stack.xsk.sockets import PortConfig
from tests.kernel.frames import ethernet, ipv4, udp

ROCE_PORT, ROCE_DSCP = 4791, 26


def roce_frame(
    addresses: tuple[str, str], macs: tuple[str, str], payload: bytes, dscp: int = ROCE_DSCP
) -> bytes:
    """Marked as RoCE is; `addresses` are from and to, `macs` those of the first cable."""
    packet = ipv4(addresses[1], udp(ROCE_PORT, payload), tos=dscp << 2, source=addresses[0])
    return ethernet(packet, to=macs[1], source=macs[0])


@contextmanager
def working(home: str, ports: Sequence[PortConfig]) -> Iterator[Stack]:
    """A stack on the ports of a namespace, polled in a separate thread."""
    stack, ends = Stack(), threading.Event()
    with namespace.inside(home):
        stack.open_ports(ports)

    def work() -> None:
        while not ends.is_set():
            list(stack.poll(0.01))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield stack
    finally:
        ends.set()
        thread.join()
        stack.close()
