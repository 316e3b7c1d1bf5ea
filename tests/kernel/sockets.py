# SPDX-License-Identifier: Apache-2.0
"""An AF_XDP socket on a port of a node, open for the duration of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hipsnet.node import pins
from hipsnet.stack.ports.loop import Stack
from hipsnet.stack.xsk.sockets import PortConfig
from tests.kernel.rig import MACS, MTUS, Rig


@contextmanager
def endpoint(rig: Rig, port: int) -> Iterator[None]:
    """A stack on the port."""
    folder = pins.node_folder(rig.fabric, rig.node)
    stack = Stack()
    try:
        rig.inside(stack.open_ports, [PortConfig(f"p{port}", MACS[port], MTUS[port], folder, port)])
        yield
    finally:
        stack.close()
