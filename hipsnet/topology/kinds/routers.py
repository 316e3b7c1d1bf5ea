# SPDX-License-Identifier: Apache-2.0
"""Common to the kinds whose switches route: every cable is a /31, and servers are its lower ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Interface, IPv4Network
from itertools import pairwise

from hipsnet.topology import addressing
from hipsnet.topology.addressing import Numbering, address_of
from hipsnet.topology.fabric import Fabric, Hop, Link, NextHop, Path, Port, Route, Server, Switch
from hipsnet.topology.kinds.kind import FabricKind

LOWER, UPPER = 0, 1  # the ends of a cable: nearer to the servers, nearer to the core

Plug = tuple[int, tuple[int, ...], int]
"""A port before its node is put together: the level and digits of its cable, and which end of it the port is."""

Routers = Mapping[str, tuple[int, list[Plug]]]
"""By name, a router's level and plugs."""


def assemble(
    shape: FabricKind, numbering: Numbering, slots: Iterable[list[Plug]], routers: Routers
) -> Fabric:
    """Return the fabric of servers, whose plugs are `slots` in order of rank, and routers."""
    plans = [shape.port_plan(level, subnet) for level, subnet in enumerate(numbering.subnets)]
    identities = shape.identity_plan(numbering.identities)

    def ports(node: str, plugs: list[Plug]) -> tuple[Port, ...]:
        addresses = [IPv4Interface((plans[level].address(cable, end), 31)) for level, cable, end in plugs]
        return tuple(
            Port(node, index, level, numbering.mac(node, index), address)
            for index, ((level, _, _), address) in enumerate(zip(plugs, addresses, strict=True))
        )

    servers = []
    for rank, plugs in enumerate(slots):
        digits = addressing.digits_of(rank, shape.radices)
        name = addressing.server_name(digits, shape.radices)
        servers.append(Server(rank, name, digits, identities.address(digits[::-1]), ports(name, plugs)))
    switches = tuple(
        Switch(name, level, ports(name, plugs), "l3") for name, (level, plugs) in routers.items()
    )
    links = tuple(_links((*servers, *switches)))
    return Fabric(
        numbering.fabric, shape, numbering.subnets, numbering.identities, tuple(servers), switches, links
    )


def _links(nodes: tuple[Server | Switch, ...]) -> Iterator[Link]:
    """Join the two ends of each /31, the lower first."""
    lower: dict[IPv4Network, Port] = {}
    for port in (port for node in nodes for port in node.ports):
        if port.address and int(port.address.ip) & 1 == LOWER:
            lower[port.address.network] = port
    for port in (port for node in nodes for port in node.ports):
        if port.address and int(port.address.ip) & 1 == UPPER:
            yield Link(lower[port.address.network], port)


def next_hops(fabric: Fabric, ports: Iterable[Port]) -> tuple[NextHop, ...]:
    """Return the next hops at the other ends of these ports' cables."""
    peers = [(port.index, fabric.peer(port)) for port in ports]
    return tuple(NextHop(index, address_of(peer), peer.mac) for index, peer in peers)


def level_ports(switch: Switch, level: int) -> list[Port]:
    """Return a switch's ports on cables of one level."""
    return [port for port in switch.ports if port.level == level]


def server_routes(fabric: Fabric, server: Server) -> Iterator[Route]:
    """Yield a server's routes: NIC j of every other server by its own NIC j, the rest by any NIC."""
    if len(server.ports) > 1:
        for other in fabric.servers:
            for port in other.ports if other is not server else ():
                yield Route(IPv4Network(address_of(port)), next_hops(fabric, [server.ports[port.index]]))
    for prefix in (*fabric.subnets, fabric.identities):
        yield Route(prefix, next_hops(fabric, server.ports))


def path(fabric: Fabric, nodes: Iterable[str], senders: Mapping[str, Port], arrival: Port) -> Path:
    """Return the path along `nodes` to the port `arrival`; `senders` chooses among parallel cables by node."""
    way = list(nodes)
    hops = []
    for here, there in pairwise(way):
        goal = arrival if there == arrival.node else there
        sender = senders.get(here) or port_towards(fabric, here, goal)
        hops.append(Hop(sender, fabric.peer(sender)))
    return Path(way[0], way[-1], tuple(hops), address_of(arrival))


def port_towards(fabric: Fabric, here: str, there: str | Port) -> Port:
    """Return the first port of node `here` whose cable ends at the node (or port) `there`."""
    peers = ((port, fabric.peer(port)) for port in fabric.nodes[here].ports)
    return next(port for port, peer in peers if there in (peer, peer.node))
