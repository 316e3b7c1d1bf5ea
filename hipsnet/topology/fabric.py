# SPDX-License-Identifier: Apache-2.0
"""The data of a network: servers and switches with ports, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hipsnet.topology.kinds.kind import FabricKind


@dataclass(frozen=True)
class Port:
    """One NIC port of a server or switch.

    `index` counts the node's ports from 0. `level` is the level of the port's cable, an index into the kind's
    `cable_levels`: a BCube level, a torus dimension, a layer of a Fat-Tree. `direction` is +1 or -1 on a ring
    (0 elsewhere). Ports of layer-2 switches have no address.
    """

    node: str
    index: int
    level: int
    mac: str
    address: IPv4Interface | None = None
    direction: int = 0

    @property
    def name(self) -> str:
        """The interface's name in the lab."""
        return f"p{self.index}"


@dataclass(frozen=True)
class Server:
    """A server: `name` is `s` and the digits, the highest first; digit 0 changes fastest with `rank`."""

    rank: int
    name: str
    digits: tuple[int, ...]
    identity: IPv4Address
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Switch:
    """A switch: `routes_at` is "l2" for a bridge and "l3" for a router. `level` groups the switches in pictures."""

    name: str
    level: int
    ports: tuple[Port, ...]
    routes_at: Literal["l2", "l3"]


@dataclass(frozen=True)
class Link:
    """A cable between two ports. `name` is `<node>.<port>:<node>.<port>`, the server's end first."""

    a: Port
    b: Port

    @property
    def name(self) -> str:
        return f"{self.a.node}.{self.a.name}:{self.b.node}.{self.b.name}"


@dataclass(frozen=True)
class NextHop:
    """Leave by `port` (an index of the node's own ports) towards the neighbour that owns `via` and `mac`."""

    port: int
    via: IPv4Address
    mac: str


@dataclass(frozen=True)
class Route:
    """An entry of a node's forwarding table; several next hops share the load (ECMP)."""

    prefix: IPv4Network
    hops: tuple[NextHop, ...]


@dataclass(frozen=True)
class Hop:
    """One step of a path: out of `sender`, into `receiver` (through a switch where the fabric has one)."""

    sender: Port
    receiver: Port


@dataclass(frozen=True)
class Path:
    """A path from one server to another; `destination` is the address that makes every node forward along it."""

    source: str
    target: str
    hops: tuple[Hop, ...]
    destination: IPv4Address


@dataclass(frozen=True)
class Fabric:
    """A whole network, built by `hipsnet.topology.build`; pure data.

    `shape` is its kind with the parameters. `subnets` are the /16s of the port addresses, one per level of
    cables; `identities` is the prefix of the servers' own addresses.
    """

    name: str
    shape: FabricKind
    subnets: tuple[IPv4Network, ...]
    identities: IPv4Network
    servers: tuple[Server, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]

    @property
    def kind(self) -> str:
        """The kind's name, for display; `shape` provides everything that depends on the kind."""
        return self.shape.kind

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """The number of values of each digit of a server, digit 0 first."""
        return self.shape.radices

    @cached_property
    def nodes(self) -> dict[str, Server | Switch]:
        """Servers and switches by name."""
        nodes: tuple[Server | Switch, ...] = (*self.servers, *self.switches)
        return {node.name: node for node in nodes}

    @cached_property
    def links_by_port(self) -> dict[tuple[str, int], Link]:
        """The cable that is plugged into (node, port index)."""
        return {(end.node, end.index): link for link in self.links for end in (link.a, link.b)}

    def peer(self, port: Port) -> Port:
        """The port at the other end of this port's cable."""
        link = self.links_by_port[port.node, port.index]
        return link.b if link.a == port else link.a
