# SPDX-License-Identifier: Apache-2.0
"""A torus of any number of dimensions: servers on rings, every cable between two servers.

In a dimension of 2 servers both neighbours are the same server, so one cable joins them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from hipsnet.topology import addressing
from hipsnet.topology.addressing import Numbering, Plan, address_of
from hipsnet.topology.diagram import Line
from hipsnet.topology.fabric import Fabric, Hop, Link, NextHop, Path, Port, Route, Server, Switch
from hipsnet.topology.kinds import torus_layout
from hipsnet.topology.kinds.kind import Census, FabricKind, HipsLevels
from hipsnet.topology.picture import Drawing

LOWER, UPPER = 0, 1  # the ends of a cable: the + port of one server, the - port of its successor


class Torus(FabricKind):
    """A torus of any number of dimensions, without switches: two ports per server in each dimension."""

    kind: Literal["torus"]
    dims: tuple[Annotated[int, Field(ge=2, le=1024)], ...] = Field(
        min_length=1,
        max_length=15,
        description="servers along each dimension, dimension 0 first; a dimension of 2 has one cable per pair",
    )

    example: ClassVar[dict[str, Any]] = {"dims": (3, 3)}
    level_noun: ClassVar[str] = "dimension"
    port_noun: ClassVar[str] = "dimension"
    has_detours: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return f"Torus {'x'.join(map(str, self.dims))}"

    @property
    def radices(self) -> tuple[int, ...]:
        return self.dims

    @property
    def ports_per_server(self) -> int:
        return len(self._ways)

    @property
    def switch_ports(self) -> int:
        return 0

    @property
    def port_count(self) -> int:
        return math.prod(self.dims) * self.ports_per_server

    @property
    def census(self) -> Census:
        servers = math.prod(self.dims)
        cables = sum(servers if size > 2 else servers // 2 for size in self.dims)
        longest = max(self.dims)
        cut = 2 * servers // longest if longest > 2 else servers // 2
        return Census(0, cables, cut, sum(size // 2 for size in self.dims))

    @classmethod
    def fitting(cls, servers: int, ports: int, switch_ports: int) -> Iterator[Torus]:
        for dims in _factors(servers, 2):
            shape = cls(kind="torus", dims=dims) if len(dims) <= 15 and dims[-1] <= 1024 else None
            if shape and shape.ports_per_server <= ports:
                yield shape

    @property
    def cable_levels(self) -> tuple[str, ...]:
        return tuple(f"dimension {dimension}" for dimension in range(len(self.dims)))

    @property
    def paths_are_disjoint(self) -> bool:
        return True

    def smaller(self) -> Iterator[Iterable[Torus]]:
        tops = range(max(self.dims) - 1, 1, -1)
        yield (Torus(kind="torus", dims=tuple(min(size, top) for size in self.dims)) for top in tops)
        yield (Torus(kind="torus", dims=self.dims[:d]) for d in range(len(self.dims) - 1, 0, -1))

    def describe(self) -> str:
        return f"dims {', '.join(map(str, self.dims))}"

    def port_plan(self, level: int, subnet: IPv4Network) -> Plan:
        """The digits of the cable's lower end, then which end."""
        return Plan(subnet, tuple(self.dims[d] for d in _order(level, len(self.dims))), 1)

    @property
    def _ways(self) -> list[tuple[int, int]]:
        """The dimension and direction of each of a server's ports: in each dimension + before -."""
        return [(dimension, way) for dimension, size in enumerate(self.dims) for way in _directions(size)]

    def build(self, numbering: Numbering) -> Fabric:
        identities, ways = self.identity_plan(numbering.identities), self._ways
        servers = []
        for rank in range(math.prod(self.dims)):
            digits = addressing.digits_of(rank, self.dims)
            name = addressing.server_name(digits, self.dims)
            ports = tuple(
                Port(
                    name,
                    index,
                    dimension,
                    numbering.mac(name, index),
                    self._address(numbering.subnets[dimension], digits, dimension, way),
                    way,
                )
                for index, (dimension, way) in enumerate(ways)
            )
            servers.append(Server(rank, name, digits, identities.address(digits[::-1]), ports))
        fabric = Fabric(
            numbering.fabric, self, numbering.subnets, numbering.identities, tuple(servers), (), ()
        )
        return replace(fabric, links=tuple(self._links(fabric)))

    def _address(
        self, subnet: IPv4Network, digits: tuple[int, ...], dimension: int, way: int
    ) -> IPv4Interface:
        end = digits[dimension] if way == 0 else LOWER if way == 1 else UPPER
        lower = list(digits)
        lower[dimension] = (digits[dimension] - end) % self.dims[dimension]
        plan = self.port_plan(dimension, subnet)
        return IPv4Interface((plan.address([lower[d] for d in _order(dimension, len(self.dims))], end), 31))

    def _links(self, fabric: Fabric) -> Iterator[Link]:
        for server in fabric.servers:
            for port in server.ports:
                if port.direction == 1 or (port.direction == 0 and server.digits[port.level] == 0):
                    there = self._neighbour(fabric, server, port)
                    yield Link(port, self._port(there, port.level, -port.direction))

    def _port(self, server: Server, dimension: int, way: int) -> Port:
        """Return the server's port in a direction along a dimension."""
        before = sum(len(_directions(size)) for size in self.dims[:dimension])
        return server.ports[before + _directions(self.dims[dimension]).index(way)]

    def _neighbour(self, fabric: Fabric, server: Server, port: Port) -> Server:
        """Return the server at the other end of a port's cable."""
        digit = server.digits[port.level]
        there = (digit + (port.direction or 1)) % self.dims[port.level]
        return fabric.servers[server.rank + (there - digit) * math.prod(self.dims[: port.level])]

    def routes(self, fabric: Fabric, node: Server | Switch) -> Iterator[Route]:
        """Yield dimension-order routes: a cable's own dimension last; for the identities the highest first."""
        assert isinstance(node, Server), "a torus has no switches"
        server, dims, own = node, self.dims, node.digits

        def towards(dimension: int, value: int) -> NextHop:
            port = self._port(server, dimension, _shorter(own[dimension], value, dims[dimension]))
            peer = fabric.peer(port)
            return NextHop(port.index, address_of(peer), peer.mac)

        for dimension, subnet in enumerate(fabric.subnets):
            plan, (*before, last) = self.port_plan(dimension, subnet), _order(dimension, len(dims))
            yield from addressing.correcting_routes(plan, before, own, towards)
            # The ends of a cable along the last dimension are two servers, possibly in opposite directions.
            for lower in range(dims[last]) if dims[last] > 2 else ():
                if lower not in (own[last], (own[last] - 1) % dims[last]):
                    for end in (LOWER, UPPER):
                        address = plan.address([*(own[d] for d in before), lower], end)
                        yield Route(IPv4Network(address), (towards(last, (lower + end) % dims[last]),))
        plan = self.identity_plan(fabric.identities)
        yield from addressing.correcting_routes(plan, tuple(reversed(range(len(dims)))), own, towards)

    def paths(self, fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
        """Yield node-disjoint paths: at least one for each dimension, up to one for each port.

        A dimension that differs gives the path that begins with it and goes on in rotated order. A neighbour
        at which no such path begins gives one more, which corrects that dimension last, unless the way on
        from there leads back through the source. Every path arrives by a port of its own, whose address is
        its destination.
        """
        count = len(self.dims)
        differing = [d for d in range(count) if source.digits[d] != target.digits[d]]
        for port in source.ports:
            here, there, size = source.digits[port.level], target.digits[port.level], self.dims[port.level]
            aside = self._neighbour(fabric, source, port)
            if here != there and port.direction == _shorter(here, there, size):
                last = min(differing, key=lambda d: (port.level - d - 1) % count)
            elif here == there or port.direction == _shorter(aside.digits[port.level], there, size):
                last = port.level
            else:
                continue
            hops = [Hop(port, fabric.peer(port)), *self._walk(fabric, aside, target, _order(last, count))]
            yield Path(source.name, target.name, tuple(hops), address_of(hops[-1].receiver))

    def _walk(
        self, fabric: Fabric, here: Server, target: Server, dimensions: tuple[int, ...]
    ) -> Iterator[Hop]:
        for dimension in dimensions:
            while here.digits[dimension] != target.digits[dimension]:
                way = _shorter(here.digits[dimension], target.digits[dimension], self.dims[dimension])
                port = self._port(here, dimension, way)
                yield Hop(port, fabric.peer(port))
                here = self._neighbour(fabric, here, port)

    @property
    def hips(self) -> HipsLevels:
        """Rings; a port is that of the shorter way round, as in the routes."""
        ways = self._ways

        def port(dimension: int, size: int, distance: int) -> int:
            return ways.index((dimension, _shorter(0, distance, size)))

        ports = tuple(
            tuple(port(dimension, size, distance) for distance in range(size))
            for dimension, size in enumerate(self.dims)
        )
        return HipsLevels("ring", ports, has_rings=True)

    @property
    def far_ports(self) -> tuple[int, ...]:
        """Frames that leave by the + port of a ring arrive at the - port."""
        return tuple(self._ways.index((dimension, -way)) for dimension, way in self._ways)

    def port_number(self, port: Port) -> int:
        return port.level

    def draw(self, fabric: Fabric) -> Drawing:
        boxes = torus_layout.boxes(fabric)
        return Drawing(boxes, tuple(torus_layout.wires(fabric, boxes)))

    def diagram(self, fabric: Fabric) -> Iterator[Line]:
        return torus_layout.diagram(fabric)

    @property
    def diagram_legend(self) -> str:
        return "between two: the first is stopped, the second is stopped"


def _factors(number: int, least: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as a product of factors of at least `least`, the smallest first."""
    if number >= least:
        yield (number,)
    for factor in range(least, math.isqrt(number) + 1):
        if number % factor == 0:
            yield from ((factor, *others) for others in _factors(number // factor, factor))


def _order(dimension: int, dimensions: int) -> tuple[int, ...]:
    """Return the digits that the address of a cable along `dimension` names, in order: l+1, l+2, ..., l."""
    return tuple((dimension + step) % dimensions for step in range(1, dimensions + 1))


def _directions(size: int) -> tuple[int, ...]:
    """Return the directions along a dimension, in order of a server's ports."""
    return (1, -1) if size > 2 else (0,)


def _shorter(here: int, there: int, size: int) -> int:
    """Return the direction of the shorter way round from digit `here` to another; a tie goes +."""
    if size == 2:
        return 0
    return 1 if 2 * ((there - here) % size) <= size else -1
