# SPDX-License-Identifier: Apache-2.0
"""BCube(n, k): n^k servers with one port in each of k levels of n-port switches (Guo et al., SIGCOMM 2009).

k counts the levels, as the HiPS papers do; the SIGCOMM paper's BCube_k has k + 1 of them. The level-l
neighbours of a server are the servers whose digit l alone differs from its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Interface, IPv4Network
from typing import Any, ClassVar, Literal

from pydantic import Field

from hipsnet.topology import addressing, diagram, layout_layers
from hipsnet.topology.addressing import Numbering, Plan, address_of
from hipsnet.topology.diagram import Line
from hipsnet.topology.fabric import Fabric, Hop, Link, NextHop, Path, Port, Route, Server, Switch
from hipsnet.topology.kinds.kind import Census, FabricKind, HipsLevels
from hipsnet.topology.picture import Drawing, span


class BCube(FabricKind):
    """BCube(n,k): n^k servers with k ports each, k levels of n-port switches that bridge."""

    kind: Literal["bcube"]
    n: int = Field(ge=2, le=1024, description="ports of every switch = servers in every group")
    levels: int = Field(ge=1, le=16, description="levels of switches = ports of every server")

    example: ClassVar[dict[str, Any]] = {"n": 3, "levels": 2}
    level_noun: ClassVar[str] = "level"
    port_noun: ClassVar[str] = "level"
    option_names: ClassVar[dict[str, str]] = {"n": "ports"}
    has_detours: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return f"BCube({self.n},{self.levels})"

    @property
    def radices(self) -> tuple[int, ...]:
        return (self.n,) * self.levels

    @property
    def ports_per_server(self) -> int:
        return self.levels

    @property
    def switch_ports(self) -> int:
        return self.n

    @property
    def port_count(self) -> int:
        return 2 * self.levels * math.prod(self.radices)

    @property
    def cable_levels(self) -> tuple[str, ...]:
        return tuple(f"level {level}" for level in range(self.levels))

    @property
    def census(self) -> Census:
        servers = math.prod(self.radices)
        groups = servers // self.n
        return Census(self.levels * groups, self.levels * servers, groups * (self.n // 2), 2 * self.levels)

    @classmethod
    def fitting(cls, servers: int, ports: int, switch_ports: int) -> Iterator[BCube]:
        for levels in range(1, min(ports, 16) + 1):
            n = round(servers ** (1 / levels))
            if 2 <= n <= min(switch_ports, 1024) and n**levels == servers:
                yield cls(kind="bcube", n=n, levels=levels)

    @property
    def is_nonblocking(self) -> bool:
        return self.levels == 1

    @property
    def paths_are_disjoint(self) -> bool:
        return True

    def smaller(self) -> Iterator[Iterable[BCube]]:
        yield (BCube(kind="bcube", n=n, levels=self.levels) for n in range(self.n - 1, 1, -1))
        yield (BCube(kind="bcube", n=self.n, levels=k) for k in range(self.levels - 1, 0, -1))

    def port_plan(self, level: int, subnet: IPv4Network) -> Plan:
        """The digits of the switch group, then the host number a_l + 1."""
        return Plan(subnet, (self.n,) * (self.levels - 1), addressing.bits(self.n + 2))

    def build(self, numbering: Numbering) -> Fabric:
        """Port l of a server is in level l; port i of a switch leads to digit a_l = i."""
        servers = tuple(self._server(rank, numbering) for rank in range(math.prod(self.radices)))
        switches, links = [], []
        for level in range(self.levels):
            for group in range(self.n ** (self.levels - 1)):
                digits = addressing.digits_of(group, self.radices[1:])
                name = self._switch_name(level, digits)
                ports = tuple(Port(name, index, level, numbering.mac(name, index)) for index in range(self.n))
                switches.append(Switch(name, level, ports, "l2"))
                for port in ports:
                    member = (*digits[:level], port.index, *digits[level:])
                    links.append(Link(servers[addressing.rank_of(member, self.radices)].ports[level], port))
        return Fabric(
            numbering.fabric,
            self,
            numbering.subnets,
            numbering.identities,
            servers,
            tuple(switches),
            tuple(links),
        )

    def _switch_name(self, level: int, group: tuple[int, ...]) -> str:
        """Return the name of the switch of the servers whose digits, that of its level left out, are `group`."""
        return f"l{level}g{addressing.digits_text(group, self.radices[1:]) or '0'}"

    def _server(self, rank: int, numbering: Numbering) -> Server:
        digits = addressing.digits_of(rank, self.radices)
        name = addressing.server_name(digits, self.radices)
        ports = []
        for level, subnet in enumerate(numbering.subnets):
            plan = self.port_plan(level, subnet)
            address = plan.address([digits[d] for d in _order(level, self.levels)], digits[level] + 1)
            interface = IPv4Interface((address, 32 - plan.tail))
            ports.append(Port(name, level, level, numbering.mac(name, level), interface))
        identity = self.identity_plan(numbering.identities).address(digits[::-1])
        return Server(rank, name, digits, identity, tuple(ports))

    def _neighbour(self, fabric: Fabric, server: Server, level: int, digit: int) -> Server:
        """Return the server that differs from this one in digit `level` alone, which is `digit`."""
        step: int = self.n**level
        return fabric.servers[server.rank + (digit - server.digits[level]) * step]

    def routes(self, fabric: Fabric, node: Server | Switch) -> Iterator[Route]:
        """Yield digit correction's routes: for each level (k-1)(n-1), for the identities k(n-1)."""
        assert isinstance(node, Server), "the switches of a BCube do not route"
        server = node

        def step(level: int, digit: int) -> NextHop:
            port = self._neighbour(fabric, server, level, digit).ports[level]
            return NextHop(level, address_of(port), port.mac)

        for level, subnet in enumerate(fabric.subnets):
            plan, order = self.port_plan(level, subnet), _order(level, self.levels)
            yield from addressing.correcting_routes(plan, order, server.digits, step)
        plan, order = self.identity_plan(fabric.identities), tuple(reversed(range(self.levels)))
        yield from addressing.correcting_routes(plan, order, server.digits, step)

    def paths(self, fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
        """Yield BuildPathSet's k node-disjoint paths (SIGCOMM 2009, section 3.3, figure 4).

        Where digit i differs, DCRouting corrects i, i-1, ..., i+1: the order of the target's address in the
        level of the next higher digit that differs. Where it is equal, AltDCRouting first steps to a
        neighbour at level i, the source's own decision, and corrects i-1, ..., i from there: the order of the
        target's level-i address. So every path arrives by a port of its own, and the address of that port is
        its destination.
        """
        differing = [d for d in range(self.levels) if source.digits[d] != target.digits[d]]
        for start in range(self.levels):
            if start in differing:
                hops, here = [], source
                last = min(differing, key=lambda level: (level - start - 1) % self.levels)
            else:
                here = self._neighbour(fabric, source, start, (source.digits[start] + 1) % self.n)
                hops, last = [Hop(source.ports[start], here.ports[start])], start
            for level in (*_order(last, self.levels), last):
                if here.digits[level] != target.digits[level]:
                    there = self._neighbour(fabric, here, level, target.digits[level])
                    hops.append(Hop(here.ports[level], there.ports[level]))
                    here = there
            yield Path(source.name, target.name, tuple(hops), address_of(hops[-1].receiver))

    @property
    def hips(self) -> HipsLevels:
        ports = tuple((level,) * self.n for level in range(self.levels))
        return HipsLevels("mesh", ports)

    def draw(self, fabric: Fabric) -> Drawing:
        """Put the servers in a row in order of rank, the switches of level 0 below and the others above."""
        gaps = [
            layout_layers.GAP * sum(rank % self.n**digit == 0 for digit in range(1, self.levels))
            for rank in range(len(fabric.servers))
        ]
        boxes = layout_layers.server_row(fabric.servers, gaps)
        left, right = span(boxes.values())
        rise = max(1.35, 0.12 * (right - left))
        for level in range(self.levels):
            row = [switch for switch in fabric.switches if switch.level == level]
            y = rise * level if level else -max(0.95, 0.06 * (right - left))
            boxes |= layout_layers.switch_row(row, left, right, y)
        return Drawing(boxes, tuple(layout_layers.wires(fabric, boxes)))

    def diagram(self, fabric: Fabric) -> Iterator[Line]:
        """Yield a line for each switch with its servers, level by level."""
        for level, name in enumerate(self.cable_levels):
            yield diagram.heading(name)
            for switch in fabric.switches:
                if switch.level == level:
                    ends = [fabric.peer(port) for port in switch.ports]
                    cells = [diagram.cell(end.node, [end]) for end in ends]
                    yield [*diagram.label(switch), diagram.Spot("  "), *diagram.spaced(cells)]


def _order(level: int, levels: int) -> tuple[int, ...]:
    """Return the digits that a port address of `level` names, in order: l-1, l-2, ..., l+1 (mod k)."""
    return tuple((level - step) % levels for step in range(1, levels))
