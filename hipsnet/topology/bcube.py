# SPDX-License-Identifier: Apache-2.0
"""BCube(n, k): n^k servers with one port in each of k levels of n-port switches (Guo et al., SIGCOMM 2009).

k counts the levels, as the HiPS papers do; the SIGCOMM paper's BCube_k has k + 1 of them. A server's level-l
neighbours are those whose digits differ from its own in digit l alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from ipaddress import IPv4Interface, IPv4Network

from hipsnet.topology import addressing, schema
from hipsnet.topology.addressing import Plan, address_of
from hipsnet.topology.fabric import Fabric, Hop, Link, NextHop, Path, Port, Route, Server, Switch


def order(level: int, levels: int) -> tuple[int, ...]:
    """Return the digits that a port address of `level` names, in order: l-1, l-2, ..., l+1 (mod k)."""
    return tuple((level - step) % levels for step in range(1, levels))


def identity_order(levels: int) -> tuple[int, ...]:
    """Return the digits that an identity names, in order: k-1, ..., 0."""
    return tuple(reversed(range(levels)))


def port_plan(subnet: IPv4Network, n: int, levels: int) -> Plan:
    """Port addresses of one level: the digits of the switch group, then the host number a_l + 1."""
    return Plan(subnet, (n,) * (levels - 1), addressing.bits(n + 2))


def identity_plan(prefix: IPv4Network, n: int, levels: int) -> Plan:
    """Identities: the digits k-1, ..., 0."""
    return Plan(prefix, (n,) * levels)


def build(topology: schema.Topology, shape: schema.BCube) -> Fabric:
    """Return the fabric: a server's port l is in level l, a switch's port i leads to digit a_l = i."""
    dims = (shape.n,) * shape.levels
    subnets = addressing.subnets(topology, shape.levels)
    mac = addressing.mac_source(topology)
    servers = tuple(
        _server(rank, dims, subnets, topology.addresses.identity, mac)
        for rank in range(shape.n**shape.levels)
    )
    switches, links = [], []
    for level in range(shape.levels):
        for group in range(shape.n ** (shape.levels - 1)):
            digits = addressing.digits_of(group, dims[1:])
            name = switch_name(level, digits, dims)
            ports = tuple(Port(name, index, level, mac(name, index)) for index in range(shape.n))
            switches.append(Switch(name, level, ports, "l2"))
            for port in ports:
                member = (*digits[:level], port.index, *digits[level:])
                links.append(Link(servers[addressing.rank_of(member, dims)].ports[level], port))
    return Fabric(
        topology.name,
        "bcube",
        dims,
        subnets,
        topology.addresses.identity,
        servers,
        tuple(switches),
        tuple(links),
    )


def switch_name(level: int, group: tuple[int, ...], dims: tuple[int, ...]) -> str:
    """Return the name of the switch of the servers whose digits, that of its level left out, are `group`."""
    return f"l{level}g{addressing.digits_text(group, dims[1:]) or '0'}"


def _server(
    rank: int,
    dims: tuple[int, ...],
    subnets: tuple[IPv4Network, ...],
    identities: IPv4Network,
    mac: Callable[[str, int], str],
) -> Server:
    n, levels = dims[0], len(dims)
    digits = addressing.digits_of(rank, dims)
    name = addressing.server_name(digits, dims)
    ports = []
    for level, subnet in enumerate(subnets):
        plan = port_plan(subnet, n, levels)
        address = plan.address([digits[d] for d in order(level, levels)], digits[level] + 1)
        ports.append(Port(name, level, level, mac(name, level), IPv4Interface((address, 32 - plan.tail))))
    identity = identity_plan(identities, n, levels).address(digits[::-1])
    return Server(rank, name, digits, identity, tuple(ports))


def neighbour(fabric: Fabric, server: Server, level: int, digit: int) -> Server:
    """Return the server that differs from this one in digit `level` alone, which is `digit`."""
    return fabric.servers[server.rank + (digit - server.digits[level]) * math.prod(fabric.dims[:level])]


def routes(fabric: Fabric, server: Server) -> Iterator[Route]:
    """Yield digit correction's routes: for each level (k-1)(n-1), for the identities k(n-1)."""
    n, levels = fabric.dims[0], len(fabric.dims)

    def step(level: int, digit: int) -> NextHop:
        port = neighbour(fabric, server, level, digit).ports[level]
        return NextHop(level, address_of(port), port.mac)

    for level, subnet in enumerate(fabric.subnets):
        plan = port_plan(subnet, n, levels)
        yield from addressing.correcting_routes(plan, order(level, levels), server.digits, step)
    plan = identity_plan(fabric.identities, n, levels)
    yield from addressing.correcting_routes(plan, identity_order(levels), server.digits, step)


def paths(fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
    """Yield BuildPathSet's k node-disjoint paths (SIGCOMM 2009, section 3.3, figure 4).

    Where digit i differs, DCRouting corrects i, i-1, ..., i+1: the order of the target's address in the level
    of the next higher digit that differs. Where it is equal, AltDCRouting first steps to a neighbour at level
    i, the source's own decision, and corrects i-1, ..., i from there: the order of the target's level-i
    address. So every path arrives by a port of its own, and that port's address is its destination.
    """
    n, levels = fabric.dims[0], len(fabric.dims)
    differing = [level for level in range(levels) if source.digits[level] != target.digits[level]]
    for start in range(levels):
        if start in differing:
            hops, here = [], source
            last = min(differing, key=lambda level: (level - start - 1) % levels)
        else:
            here, last = neighbour(fabric, source, start, (source.digits[start] + 1) % n), start
            hops = [Hop(source.ports[start], here.ports[start])]
        for level in (*order(last, levels), last):
            if here.digits[level] != target.digits[level]:
                there = neighbour(fabric, here, level, target.digits[level])
                hops.append(Hop(here.ports[level], there.ports[level]))
                here = there
        yield Path(source.name, target.name, tuple(hops), address_of(hops[-1].receiver))
