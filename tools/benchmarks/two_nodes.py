# SPDX-License-Identifier: Apache-2.0
"""A cable between two namespaces, with the forwarding program at both ends."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from pyroute2 import IPRoute

from hipsnet.node import namespace, pins
from hipsnet.node.attaching import attach_forwarding
from hipsnet.node.desired import TableEntry
from hipsnet.node.forwarding import fill_table
from hipsnet.stack.xsk.sockets import PortConfig

INTERFACE = "p0"


@dataclass(frozen=True)
class End:
    """One end of the cable: a node in a namespace of that name."""

    fabric: str
    name: str
    mac: str
    address: str
    mtu: int

    @property
    def namespace(self) -> str:
        return f"{self.fabric}-{self.name}"

    @property
    def endpoints(self) -> Path:
        return pins.node_folder(self.fabric, self.name) / "endpoints"

    def port(self, **fields: object) -> PortConfig:
        """The port at this end, for the stack to open."""
        return PortConfig(INTERFACE, self.mac, self.mtu, self.endpoints.parent, 0, **fields)  # type: ignore[arg-type]


@contextmanager
def cable(mtu: int = 9000) -> Iterator[tuple[End, End]]:
    """Two ends with addresses, up; removed afterwards."""
    fabric = f"xsk{os.getpid():x}{secrets.token_hex(2)}"
    ends = (
        End(fabric, "a", "02:48:00:dd:00:0a", "10.77.0.1", mtu),
        End(fabric, "b", "02:48:00:dd:00:0b", "10.77.0.2", mtu),
    )
    try:
        for end in ends:
            namespace.create(end.namespace, "hipsnet two nodes")
        _lay(ends)
        for end in ends:
            with namespace.inside(end.namespace):
                attach_forwarding(fabric, end.name, [(0, INTERFACE, end.mac)])
            fill_table(fabric, end.name, [TableEntry(IPv4Network(end.address))])
        yield ends
    finally:
        pins.remove_pins(fabric)
        for end in ends:
            if end.namespace in namespace.names():
                namespace.delete(end.namespace)


def _lay(ends: tuple[End, End]) -> None:
    near, far = ends
    with namespace.inside(near.namespace), IPRoute() as netlink:
        there = os.open(namespace.NAMED / far.namespace, os.O_RDONLY)
        peer = {"ifname": INTERFACE, "address": far.mac, "mtu": far.mtu, "net_ns_fd": there}
        netlink.link("add", ifname=INTERFACE, kind="veth", address=near.mac, mtu=near.mtu, peer=peer)
        os.close(there)
    for end in ends:
        with namespace.inside(end.namespace), IPRoute() as netlink:
            (index,) = netlink.link_lookup(ifname=INTERFACE)
            netlink.addr("add", index=index, address=end.address, prefixlen=24)
            netlink.link("set", index=index, state="up")
            netlink.link("set", index=1, state="up")
