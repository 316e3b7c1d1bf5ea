# SPDX-License-Identifier: Apache-2.0
"""Dragonfly: groups of routers, all joined to one another within a group, and groups joined by global cables.

After Kim et al., ISCA 2008, with their letters: p `servers` at a router, a `routers` in a group, h
`global_links` of a router, g `groups`; balanced is a = 2p = 2h, and the largest has g = a h + 1. The global
cables are arranged absolutely (Camarero et al., ACM TACO 2014): the a h global ports of a group lead, in
order, to the other groups in order, and start again while there are enough for a whole round; ports left over
are not built.

Routes are minimal: at most one local cable, one global cable and one local cable between two routers, by ECMP
where there are several of the same length. Their channels form a cycle: a local cable behind a global one
waits for the global cable of another group that follows a local one. With PFC, two virtual channels
(lossless priorities, one before and one behind the global cable) would be required.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Network
from itertools import product
from typing import Any, ClassVar, Literal

from pydantic import Field

from hipsnet.topology import diagram
from hipsnet.topology.addressing import Numbering, Plan
from hipsnet.topology.diagram import Line
from hipsnet.topology.fabric import Fabric, Path, Port, Route, Server, Switch
from hipsnet.topology.kinds import dragonfly_layout, routers
from hipsnet.topology.kinds.kind import Census, FabricKind
from hipsnet.topology.kinds.routers import LOWER, UPPER, Plug, next_hops
from hipsnet.topology.picture import Drawing

_LOCAL, _GLOBAL = 1, 2  # levels of cables; level 0 joins servers and routers

_Place = tuple[int, int]  # a router: its group, and its number in the group


class Dragonfly(FabricKind):
    """A Dragonfly: groups of routers with direct cables inside and between the groups."""

    kind: Literal["dragonfly"]
    groups: int = Field(ge=2, le=1024, description="groups g, at most routers x global_links + 1")
    routers: int = Field(ge=2, le=256, description="routers a in each group")
    servers: int = Field(ge=1, le=256, description="servers p at each router, with one port each")
    global_links: int = Field(ge=1, le=256, description="cables h from each router to other groups")

    example: ClassVar[dict[str, Any]] = {"groups": 9, "routers": 4, "servers": 2, "global_links": 2}
    level_noun: ClassVar[str] = "layer"
    deadlock_note: ClassVar[str] = (
        "minimal routes on a Dragonfly need two virtual channels, one before and one behind the global cable, "
        "but RoCE traffic has one lossless priority"
    )

    @property
    def title(self) -> str:
        return f"Dragonfly(p={self.servers},a={self.routers},h={self.global_links},g={self.groups})"

    @property
    def radices(self) -> tuple[int, ...]:
        return (self.servers, self.routers, self.groups)

    @property
    def ports_per_server(self) -> int:
        return 1

    @property
    def switch_ports(self) -> int:
        return self.servers + self.routers - 1 + self.global_links

    @property
    def port_count(self) -> int:
        return self.groups * self.routers * (self.servers + self.switch_ports)

    @property
    def census(self) -> Census:
        pairs, between = self.groups * (self.groups - 1) // 2, self._between
        servers = self.groups * self.routers * self.servers
        local = self.groups * self.routers * (self.routers - 1) // 2
        across = self.groups // 2 * (self.groups - self.groups // 2) * between
        cables = servers + local + pairs * between
        return Census(self.groups * self.routers, cables, min(servers // 2, across), 5)

    @property
    def _between(self) -> int:
        """The number of cables between two groups."""
        return self.routers * self.global_links // (self.groups - 1)

    @classmethod
    def fitting(cls, servers: int, ports: int, switch_ports: int) -> Iterator[Dragonfly]:
        """Balanced ones: a = 2p = 2h."""
        for p in range(1, min(128, (switch_ports + 1) // 4) + 1):
            groups, rest = divmod(servers, 2 * p * p)
            if rest == 0 and 2 <= groups <= min(2 * p * p + 1, 1024):
                yield cls(kind="dragonfly", groups=groups, routers=2 * p, servers=p, global_links=p)

    @property
    def cable_levels(self) -> tuple[str, ...]:
        return ("server\u2013router", "within a group", "between groups")

    def misfit(self) -> str | None:
        if (most := self.routers * self.global_links) < self.groups - 1:
            return f"{self.groups} groups, but {most} global cables of a group reach {most} others"
        return None

    def smaller(self) -> Iterator[Iterable[Dragonfly]]:
        for name, least in (("groups", 2), ("routers", 2), ("servers", 1)):
            sizes = range(getattr(self, name) - 1, least - 1, -1)
            yield (self.altered(**{name: size}) for size in sizes)

    def port_plan(self, level: int, subnet: IPv4Network) -> Plan:
        """The group, the router at the cable's lower end, its port on that level, then which end."""
        ports = (self.servers, self.routers, self.global_links)[level]
        return Plan(subnet, (self.groups, self.routers, ports), 1)

    def build(self, numbering: Numbering) -> Fabric:
        """The ports of a router lead to its servers, to the routers of its group, to other groups, in order."""
        slots: list[list[Plug]] = [
            [(0, (group, router, server), LOWER)]
            for group, router, server in product(range(self.groups), range(self.routers), range(self.servers))
        ]
        places = product(range(self.groups), range(self.routers))
        routers_ = {_name(place): (0, list(self._plugs(place))) for place in places}
        return routers.assemble(self, numbering, slots, routers_)

    def _plugs(self, place: _Place) -> Iterator[Plug]:
        group, router = place
        for server in range(self.servers):
            yield 0, (group, router, server), UPPER
        for other in range(self.routers):
            if other != router:
                ends = (router, other)
                yield _LOCAL, (group, min(ends), max(ends)), LOWER if router < other else UPPER
        for index in range(self.global_links):
            if far := self.across(group, router * self.global_links + index):
                end = min((group, router, index), far)
                yield _GLOBAL, end, LOWER if end == (group, router, index) else UPPER

    def across(self, group: int, port: int) -> tuple[int, int, int] | None:
        """Return the group, router and index at the other end of a group's global port; None if not built."""
        others = self.groups - 1
        turn, step = divmod(port, others)
        if turn >= self.routers * self.global_links // others:
            return None
        there = step + (step >= group)
        return there, *divmod(turn * others + group - (group > there), self.global_links)

    def _minimal(self, here: _Place, there: _Place) -> list[tuple[int, int]]:
        """Return the ends of the cables that minimal routes between routers of two groups take."""
        crossings = _crossings(self)[here[0], there[0]]
        lengths = [(near != here[1]) + (far != there[1]) for near, far in crossings]
        return [ends for ends, length in zip(crossings, lengths, strict=True) if length == min(lengths)]

    def _ports_towards(self, fabric: Fabric, here: _Place, there: _Place) -> list[Port]:
        """Return the ports of a router that minimal routes to another router leave by."""
        router = fabric.nodes[_name(here)]
        peers = [(port, fabric.peer(port).node) for port in router.ports]
        if here[0] == there[0]:
            return [port for port, peer in peers if peer == _name(there)]
        near = {(near, far) for near, far in self._minimal(here, there)}
        goals = {_name((there[0], far)) for start, far in near if start == here[1]}
        goals |= {_name((here[0], start)) for start, _ in near if start != here[1]}
        return [port for port, peer in peers if peer in goals]

    def routes(self, fabric: Fabric, node: Server | Switch) -> Iterator[Route]:
        """Yield a node's routes; the addresses of the routers are reached, too.

        A route names a router, or a whole group where the way to all its routers begins alike.
        """
        if isinstance(node, Server):
            yield from routers.server_routes(fabric, node)
            return
        here = self._place(fabric, node)
        plans = [
            *(self.port_plan(level, subnet) for level, subnet in enumerate(fabric.subnets)),
            self.identity_plan(fabric.identities),
        ]
        for group in range(self.groups):
            others = [(group, router) for router in range(self.routers) if (group, router) != here]
            ways: dict[tuple[int, ...], list[Port]] = {
                place: self._ports_towards(fabric, here, place) for place in others
            }
            alike = group != here[0] and len({tuple(ports) for ports in ways.values()}) == 1
            goals = {(group,): next(iter(ways.values()))} if alike else ways
            for digits, ports in goals.items():
                hops = next_hops(fabric, ports)
                for plan in plans:
                    yield Route(plan.prefix(digits), hops)
        for port in node.ports[: self.servers]:
            server = fabric.nodes[fabric.peer(port).node]
            assert isinstance(server, Server)
            yield Route(IPv4Network(server.identity), next_hops(fabric, [port]))

    def _place(self, fabric: Fabric, router: Switch) -> _Place:
        server = fabric.nodes[fabric.peer(router.ports[0]).node]
        assert isinstance(server, Server)
        return server.digits[2], server.digits[1]

    def paths(self, fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
        """Yield one minimal way; where there are several, the routers choose by hash."""
        here, there = (source.digits[2], source.digits[1]), (target.digits[2], target.digits[1])
        way, senders = [source.name, _name(here)], {}
        while here != there:
            port = self._ports_towards(fabric, here, there)[0]
            senders[_name(here)] = port
            router = fabric.nodes[fabric.peer(port).node]
            assert isinstance(router, Switch)
            here = self._place(fabric, router)
            way.append(router.name)
        yield routers.path(fabric, [*way, target.name], senders, target.ports[0])

    def equal_ways(self, path: Path) -> int:
        groups = [hop.sender for hop in path.hops if hop.sender.level == _GLOBAL]
        if not groups:
            return 1
        first, last = path.hops[0].receiver.node, path.hops[-1].sender.node
        return len(self._minimal(_parse(first), _parse(last)))

    def draw(self, fabric: Fabric) -> Drawing:
        return dragonfly_layout.draw(fabric, self.groups, self.routers, self.servers)

    def diagram(self, fabric: Fabric) -> Iterator[Line]:
        """Yield each router with its servers, group by group."""
        for group in range(self.groups):
            yield diagram.heading(f"group {group}")
            for router in fabric.switches[group * self.routers : (group + 1) * self.routers]:
                yield from diagram.with_servers(fabric, router)


@lru_cache(maxsize=8)
def _crossings(shape: Dragonfly) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """By two groups: the routers at the two ends of each cable between them."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for group, port in product(range(shape.groups), range(shape.routers * shape.global_links)):
        if far := shape.across(group, port):
            found[group, far[0]].append((port // shape.global_links, far[1]))
    return found


def _name(place: _Place) -> str:
    return f"g{place[0]}r{place[1]}"


def _parse(name: str) -> _Place:
    group, router = name.removeprefix("g").split("r")
    return int(group), int(router)
