# SPDX-License-Identifier: Apache-2.0
"""A node of three ports in its own namespace, with a program attached to each port."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pyroute2 import IPRoute

from hipsnet.node import bpf, namespace, pins
from hipsnet.node.desired import TableEntry
from hipsnet.node.forwarding import frames_by_reason, read_counters
from hipsnet.node.testrun import run_frame
from tests.kernel.frames import NEXT, PEER, PORT0, PORT1, PORT2

Result = TypeVar("Result")
MACS = (PORT0, PORT1, PORT2)
MTUS = (9000, 9000, 1500)
TABLE = (
    TableEntry(IPv4Network("10.0.0.1/32")),
    TableEntry(IPv4Network("10.1.0.0/16"), 1, NEXT),
    TableEntry(IPv4Network("10.1.2.0/24"), 0, PEER),
    TableEntry(IPv4Network("10.1.2.3/32")),
    TableEntry(IPv4Network("10.2.0.0/16"), 2, NEXT),
    TableEntry(IPv4Network("10.3.0.0/16"), 1, None),
    TableEntry(IPv4Network("10.4.0.0/16"), 77, NEXT),
)

PRIORITIES = tuple({26: 3, 10: 4}.get(dscp, 0) for dscp in range(64))
"""By DSCP; that of DSCP 10 is not its class."""


@dataclass(frozen=True)
class Rig:
    """A node with its program; everything runs in one thread inside the node's namespace."""

    fabric: str
    node: str
    thread: ThreadPoolExecutor

    def inside(self, function: Callable[..., Result], *args: Any, **options: Any) -> Result:
        return self.thread.submit(function, *args, **options).result()

    def run(self, frame: bytes, port: int = 0, **options: Any) -> tuple[str, bytes]:
        """Return (verdict, output frame) of the program for a frame received on a port."""
        return self.inside(self._run, frame, port, options)

    def counted(
        self, frame: bytes, port: int = 0, **options: Any
    ) -> tuple[str, bytes, dict[str, int], np.ndarray]:
        """(verdict, frame out, frames by reason, change of the counters by port)."""
        before = read_counters(self.fabric, self.node)
        verdict, out = self.run(frame, port, **options)
        change = subtract(read_counters(self.fabric, self.node), before)
        return verdict, out, frames_by_reason(change), change

    def _run(self, frame: bytes, port: int, options: dict[str, Any]) -> tuple[str, bytes]:
        fd = bpf.open_pin(pins.node_folder(self.fabric, self.node) / pins.PROGRAM)
        assert fd is not None
        with bpf.closing(fd):
            return run_frame(fd, frame, socket.if_nametoindex(f"p{port}"), **options)


def subtract(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    change = np.zeros_like(after)
    for name in after.dtype.names or ():
        change[name] = after[name] - before[name]
    return change


def make_ports() -> None:
    """Veth cables p0-q0, p1-q1, p2-q2 in the namespace of the caller, up."""
    with IPRoute() as netlink:
        for number, (mac, mtu) in enumerate(zip(MACS, MTUS, strict=True)):
            netlink.link(
                "add",
                ifname=f"p{number}",
                kind="veth",
                address=mac,
                mtu=mtu,
                peer={"ifname": f"q{number}", "mtu": mtu, "address": f"02:48:00:bb:00:{number:02x}"},
            )
        for link in list(netlink.get_links()):
            netlink.link("set", index=link["index"], state="up")


@contextmanager
def node(name: str, attach: Callable[..., Any]) -> Iterator[Rig]:
    fabric = f"test{os.getpid()}-{name}"
    home = fabric
    namespace.create(home, "hipsnet test")
    try:
        with ThreadPoolExecutor(1, initializer=namespace.enter, initargs=(home,)) as thread:
            rig = Rig(fabric, name, thread)
            rig.inside(quieten)
            rig.inside(make_ports)
            rig.inside(attach, fabric, name, [(port, f"p{port}", mac) for port, mac in enumerate(MACS)])
            yield rig
    finally:
        pins.remove_pins(fabric)
        namespace.delete(home)


def quieten() -> None:
    """Disable IPv6 in the namespace of the caller (/proc/sys/net shows the namespace of the reading thread)."""
    for scope in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1")
