# SPDX-License-Identifier: Apache-2.0
"""A torus of any number of dimensions: servers on rings, every cable between two servers.

Along a side of 2 the two neighbours are one, so one cable joins them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from ipaddress import IPv4Interface, IPv4Network

from hipsnet.topology import addressing, schema
from hipsnet.topology.addressing import Plan, address_of
from hipsnet.topology.fabric import Fabric, Hop, Link, NextHop, Path, Port, Route, Server

LOWER, UPPER = 0, 1  # the ends of a cable: the + port of one server, the - port of its successor


def order(dimension: int, dimensions: int) -> tuple[int, ...]:
    """Return the digits that the address of a cable along `dimension` names, in order: l+1, l+2, ..., l."""
    return tuple((dimension + step) % dimensions for step in range(1, dimensions + 1))


def port_plan(subnet: IPv4Network, dims: tuple[int, ...], dimension: int) -> Plan:
    """Port addresses of one dimension: the digits of the cable's lower end, then which end."""
    return Plan(subnet, tuple(dims[d] for d in order(dimension, len(dims))), 1)


def identity_plan(prefix: IPv4Network, dims: tuple[int, ...]) -> Plan:
    """Identities: the digits d-1, ..., 0."""
    return Plan(prefix, dims[::-1])


def directions(side: int) -> tuple[int, ...]:
    """Return the ways along a dimension, in order of a server's ports."""
    return (1, -1) if side > 2 else (0,)


def build(topology: schema.Topology, shape: schema.Torus) -> Fabric:
    """Return the fabric; a server's ports are, for each dimension, the + port then the - port."""
    dims = shape.dims
    subnets = addressing.subnets(topology, len(dims))
    mac = addressing.mac_source(topology)
    identities = identity_plan(topology.addresses.identity, dims)
    servers = []
    for rank in range(math.prod(dims)):
        digits = addressing.digits_of(rank, dims)
        name = addressing.server_name(digits, dims)
        ways = [(dimension, way) for dimension, side in enumerate(dims) for way in directions(side)]
        ports = tuple(
            Port(
                name,
                index,
                dimension,
                mac(name, index),
                _address(subnets, dims, digits, dimension, way),
                way,
            )
            for index, (dimension, way) in enumerate(ways)
        )
        servers.append(Server(rank, name, digits, identities.address(digits[::-1]), ports))
    fabric = Fabric(
        topology.name, "torus", dims, subnets, topology.addresses.identity, tuple(servers), (), ()
    )
    return Fabric(**{**vars(fabric), "links": tuple(_links(fabric))})


def _address(
    subnets: tuple[IPv4Network, ...],
    dims: tuple[int, ...],
    digits: tuple[int, ...],
    dimension: int,
    way: int,
) -> IPv4Interface:
    end = digits[dimension] if way == 0 else LOWER if way == 1 else UPPER
    lower = list(digits)
    lower[dimension] = (digits[dimension] - end) % dims[dimension]
    plan = port_plan(subnets[dimension], dims, dimension)
    return IPv4Interface((plan.address([lower[d] for d in order(dimension, len(dims))], end), 31))


def _links(fabric: Fabric) -> Iterator[Link]:
    for server in fabric.servers:
        for port in server.ports:
            if port.direction == 1 or (port.direction == 0 and server.digits[port.level] == 0):
                there = neighbour(fabric, server, port)
                yield Link(port, port_of(fabric, there, port.level, -port.direction))


def port_of(fabric: Fabric, server: Server, dimension: int, way: int) -> Port:
    """Return the server's port along a dimension; where there is but one, that."""
    before = sum(len(directions(side)) for side in fabric.dims[:dimension])
    return server.ports[before + directions(fabric.dims[dimension]).index(way)]


def neighbour(fabric: Fabric, server: Server, port: Port) -> Server:
    """Return the server at the other end of a port's cable."""
    side = fabric.dims[port.level]
    digit = server.digits[port.level]
    there = (digit + (port.direction or 1)) % side
    return fabric.servers[server.rank + (there - digit) * math.prod(fabric.dims[: port.level])]


def shorter(here: int, there: int, side: int) -> int:
    """Return the direction of the shorter way round from digit `here` to another; a tie goes +."""
    if side == 2:
        return 0
    return 1 if 2 * ((there - here) % side) <= side else -1


def routes(fabric: Fabric, server: Server) -> Iterator[Route]:
    """Yield dimension-order routes: a cable's own dimension last; for the identities the highest first."""
    dims = fabric.dims

    def towards(dimension: int, value: int) -> NextHop:
        port = port_of(fabric, server, dimension, shorter(server.digits[dimension], value, dims[dimension]))
        peer = fabric.peer(port)
        return NextHop(port.index, address_of(peer), peer.mac)

    own = server.digits
    for dimension, subnet in enumerate(fabric.subnets):
        plan, (*before, last) = port_plan(subnet, dims, dimension), order(dimension, len(dims))
        yield from addressing.correcting_routes(plan, before, own, towards)
        # The two ends of a cable along the last dimension are two servers, and the ways to them may part.
        for lower in range(dims[last]) if dims[last] > 2 else ():
            if lower not in (own[last], (own[last] - 1) % dims[last]):
                for end in (LOWER, UPPER):
                    address = plan.address([*(own[d] for d in before), lower], end)
                    yield Route(IPv4Network(address), (towards(last, (lower + end) % dims[last]),))
    plan = identity_plan(fabric.identities, dims)
    yield from addressing.correcting_routes(plan, tuple(reversed(range(len(dims)))), own, towards)


def paths(fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
    """Yield node-disjoint paths: at least one for each dimension, up to one for each port.

    A dimension that differs gives the path that begins with it and goes on in rotated order. A neighbour at
    which no such path begins gives one more, which corrects that dimension last, unless the way on from there
    leads back through the source. Every path arrives by a port of its own, whose address is its destination.
    """
    dimensions = len(fabric.dims)
    differing = [d for d in range(dimensions) if source.digits[d] != target.digits[d]]
    for port in source.ports:
        here, there, side = source.digits[port.level], target.digits[port.level], fabric.dims[port.level]
        aside = neighbour(fabric, source, port)
        if here != there and port.direction == shorter(here, there, side):
            last = min(differing, key=lambda d: (port.level - d - 1) % dimensions)
        elif here == there or port.direction == shorter(aside.digits[port.level], there, side):
            last = port.level
        else:
            continue
        hops = [Hop(port, fabric.peer(port)), *_walk(fabric, aside, target, order(last, dimensions))]
        yield Path(source.name, target.name, tuple(hops), address_of(hops[-1].receiver))


def _walk(fabric: Fabric, here: Server, target: Server, dimensions: tuple[int, ...]) -> Iterator[Hop]:
    for dimension in dimensions:
        while here.digits[dimension] != target.digits[dimension]:
            way = shorter(here.digits[dimension], target.digits[dimension], fabric.dims[dimension])
            port = port_of(fabric, here, dimension, way)
            yield Hop(port, fabric.peer(port))
            here = neighbour(fabric, here, port)
