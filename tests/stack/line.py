# SPDX-License-Identifier: Apache-2.0
"""Three servers in a row, a - m - b: m forwards between a and b."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network

from pyroute2 import IPRoute

from hipsnet.node import namespace, pins
from hipsnet.node.attaching import attach_forwarding
from hipsnet.node.desired import TableEntry
from hipsnet.node.forwarding import fill_table
from hipsnet.node.priorities import set_priorities
from hipsnet.stack.xsk.sockets import PortConfig
from tests.kernel.rig import PRIORITIES
from tools.benchmarks.two_nodes import End

MTU = 9000
M_PORTS = (("p0", "02:48:00:dd:01:00"), ("p1", "02:48:00:dd:01:01"))


@dataclass(frozen=True)
class Line:
    """`a` and `b` see the middle's port as their next hop."""

    fabric: str
    a: End
    b: End

    @property
    def middle(self) -> str:
        return f"{self.fabric}-m"

    def ports(self, **fields: object) -> list[PortConfig]:
        """The ports of the middle: p0 to a, p1 to b."""
        folder = pins.node_folder(self.fabric, "m")
        return [
            PortConfig(name, mac, MTU, folder, key, **fields)  # type: ignore[arg-type]
            for key, (name, mac) in enumerate(M_PORTS)
        ]


@contextmanager
def line() -> Iterator[Line]:
    fabric = f"lin{os.getpid():x}{secrets.token_hex(2)}"
    made = Line(
        fabric,
        End(fabric, "a", "02:48:00:dd:00:0a", "10.77.1.1", MTU),
        End(fabric, "b", "02:48:00:dd:00:0b", "10.77.2.1", MTU),
    )
    ends = (made.a, made.b)
    names = (made.a.namespace, made.middle, made.b.namespace)
    try:
        for name in names:
            namespace.create(name, "hipsnet test")
        for end, (ifname, mac) in zip(ends, M_PORTS, strict=True):
            _lay(end, made.middle, ifname, mac)
        for end in ends:
            with namespace.inside(end.namespace):
                attach_forwarding(fabric, end.name, [(0, "p0", end.mac)])
            fill_table(fabric, end.name, [TableEntry(IPv4Network(end.address))])
        with namespace.inside(made.middle):
            attach_forwarding(fabric, "m", [(key, *port) for key, port in enumerate(M_PORTS)])
        fill_table(
            fabric, "m", [TableEntry(IPv4Network(end.address), key, end.mac) for key, end in enumerate(ends)]
        )
        set_priorities(fabric, "m", PRIORITIES)
        yield made
    finally:
        pins.remove_pins(fabric)
        for name in names:
            if name in namespace.names():
                namespace.delete(name)


def _lay(end: End, middle: str, ifname: str, mac: str) -> None:
    with namespace.inside(end.namespace), IPRoute() as netlink:
        there = os.open(namespace.NAMED / middle, os.O_RDONLY)
        peer = {"ifname": ifname, "address": mac, "mtu": MTU, "net_ns_fd": there}
        netlink.link("add", ifname="p0", kind="veth", address=end.mac, mtu=MTU, peer=peer)
        os.close(there)
        (index,) = netlink.link_lookup(ifname="p0")
        netlink.link("set", index=index, state="up")
    with namespace.inside(middle), IPRoute() as netlink:
        (index,) = netlink.link_lookup(ifname=ifname)
        netlink.link("set", index=index, state="up")
