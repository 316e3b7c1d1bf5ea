# SPDX-License-Identifier: Apache-2.0
"""Fat-Tree(k): k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches.

After Al-Fares et al., SIGCOMM 2008. A NIC sits in host slot rank * NICs + NIC, counted along the edge
switches; every cable is a /31 and every switch a router. Cables of layer 0 join servers and edge, 1 edge and
aggregation, 2 aggregation and core; all switches are built. Routing goes up by any of the ways of equal cost
(ECMP), and down by the only one. Every prefix names a pod or a switch in it, so that an address that is not
in use finds no route and no loop.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from hipsnet.topology import diagram, layout_layers
from hipsnet.topology.addressing import Numbering, Plan
from hipsnet.topology.diagram import Line
from hipsnet.topology.fabric import Fabric, Path, Port, Route, Server, Switch
from hipsnet.topology.kinds import routers
from hipsnet.topology.kinds.kind import Census, FabricKind
from hipsnet.topology.kinds.routers import LOWER, UPPER, Plug, level_ports, next_hops
from hipsnet.topology.picture import Box, Drawing, Region, span, text_width

_LAYERS = ("edge", "aggregation", "core")
_Behind = Callable[[int, int, int], Port | None]  # the port that leads down to a host slot, if one does


class FatTree(FabricKind):
    """A three-layer Fat-Tree of k-port switches that route."""

    kind: Literal["fattree"]
    servers: int = Field(ge=2, le=8192, description="number of servers")
    nics: int = Field(default=1, ge=1, le=16, description="ports of every server")
    k: Annotated[int, Field(ge=2, le=32, multiple_of=2)] | None = Field(
        default=None, description="ports of every switch; the smallest that fits unless given"
    )

    example: ClassVar[dict[str, Any]] = {"servers": 16}
    level_noun: ClassVar[str] = "layer"

    @property
    def ports_per_switch(self) -> int:
        """The given k, or the smallest even one whose k^3/4 host slots hold every NIC."""
        if self.k is not None:
            return self.k
        return next(k for k in range(2, 1 << 16, 2) if k**3 // 4 >= self.servers * self.nics)

    @property
    def title(self) -> str:
        return f"Fat-Tree({self.ports_per_switch})"

    @property
    def radices(self) -> tuple[int, ...]:
        return (self.servers,)

    @property
    def ports_per_server(self) -> int:
        return self.nics

    @property
    def switch_ports(self) -> int:
        return self.ports_per_switch

    @property
    def port_count(self) -> int:
        return 2 * self.servers * self.nics + self.ports_per_switch**3

    @property
    def cable_levels(self) -> tuple[str, ...]:
        return ("server\u2013edge", "edge\u2013aggregation", "aggregation\u2013core")

    @property
    def census(self) -> Census:
        k, hosts = self.ports_per_switch, self.servers * self.nics
        layers = 1 if hosts <= k // 2 else 2 if hosts <= (k // 2) ** 2 else 3
        return Census(5 * k**2 // 4, hosts + k**3 // 2, hosts // 2, 2 * layers)

    @classmethod
    def fitting(cls, servers: int, ports: int, switch_ports: int) -> Iterator[FatTree]:
        for nics in range(1, min(ports, 16) + 1):
            if 2 <= servers <= 8192 and 4 * servers * nics <= min(switch_ports, 32) ** 3:
                shape = cls(kind="fattree", servers=servers, nics=nics)
                if shape.ports_per_switch <= min(switch_ports, 32):
                    yield shape

    @property
    def is_nonblocking(self) -> bool:
        return True

    def misfit(self) -> str | None:
        k = self.ports_per_switch
        if self.servers * self.nics > k**3 // 4:
            return f"{self.servers} servers x {self.nics} NICs, but Fat-Tree({k}) has {k**3 // 4} host slots"
        return None

    def smaller(self) -> Iterator[Iterable[FatTree]]:
        larger = range(self.ports_per_switch + 2, 34, 2)
        yield (FatTree(kind="fattree", servers=self.servers, nics=self.nics, k=k) for k in larger)
        k = self.k or min(self.ports_per_switch, 32)
        fewer = range(self.servers - 1, 1, -1)
        yield (FatTree(kind="fattree", servers=count, nics=self.nics, k=k) for count in fewer)

    def describe(self) -> str:
        return f"{self.servers} servers x {self.nics} NICs with k = {self.ports_per_switch}"

    def port_plan(self, level: int, subnet: IPv4Network) -> Plan:
        """Pod, lower switch in the pod, its port on that side, then which end.

        In layers 0 and 1 the switch is an edge switch, in layer 2 an aggregation switch.
        """
        k = self.ports_per_switch
        return Plan(subnet, (k, k // 2, k // 2), 1)

    def build(self, numbering: Numbering) -> Fabric:
        """The ports of a switch are first those towards the servers (in use), then the others."""
        k, nics = self.ports_per_switch, self.nics
        slots: list[list[Plug]] = [
            [(0, _slot(rank * nics + nic, k), LOWER) for nic in range(nics)] for rank in range(self.servers)
        ]
        return routers.assemble(self, numbering, slots, dict(self._routers(k)))

    def _routers(self, k: int) -> Iterator[tuple[str, tuple[int, list[Plug]]]]:
        pods, halves = range(k), range(k // 2)
        for pod, edge in itertools.product(pods, halves):
            used = self.servers * self.nics - (pod * (k // 2) + edge) * (k // 2)
            down: list[Plug] = [(0, (pod, edge, i), UPPER) for i in range(min(max(used, 0), k // 2))]
            yield _edge_name(pod, edge), (0, [*down, *((1, (pod, edge, agg), LOWER) for agg in halves)])
        for pod, agg in itertools.product(pods, halves):
            down = [(1, (pod, edge, agg), UPPER) for edge in halves]
            yield _aggregation_name(pod, agg), (1, [*down, *((2, (pod, agg, i), LOWER) for i in halves)])
        for agg, i in itertools.product(halves, halves):
            yield _core_name(agg, i, k), (2, [(2, (pod, agg, i), UPPER) for pod in pods])

    def routes(self, fabric: Fabric, node: Server | Switch) -> Iterator[Route]:
        """Yield a node's routes; the addresses of the switches are reached, too."""
        if isinstance(node, Server):
            return routers.server_routes(fabric, node)
        return (self._edge_routes, self._aggregation_routes, self._core_routes)[node.level](fabric, node)

    def _edge_routes(self, fabric: Fabric, switch: Switch) -> Iterator[Route]:
        (pod, own), up = _place(switch), level_ports(switch, 1)
        yield from self._other_pods(fabric, pod, up)
        servers, edges, aggregations = self._plans(fabric)
        for index, port in enumerate(up):
            yield Route(aggregations.prefix((pod, index)), next_hops(fabric, [port]))
            if index != own:
                yield Route(servers.prefix((pod, index)), next_hops(fabric, up))
                yield Route(edges.prefix((pod, index)), next_hops(fabric, up))
        yield from self._identities(fabric, lambda p, e, i: switch.ports[i] if (p, e) == (pod, own) else None)
        yield Route(fabric.identities, next_hops(fabric, up))

    def _aggregation_routes(self, fabric: Fabric, switch: Switch) -> Iterator[Route]:
        (pod, own), down, up = _place(switch), level_ports(switch, 1), level_ports(switch, 2)
        yield from self._other_pods(fabric, pod, up)
        servers, edges, aggregations = self._plans(fabric)
        for index, port in enumerate(down):
            yield Route(servers.prefix((pod, index)), next_hops(fabric, [port]))
            yield Route(edges.prefix((pod, index)), next_hops(fabric, [port]))
            if index != own:
                yield Route(aggregations.prefix((pod, index)), next_hops(fabric, down))
        yield from self._identities(fabric, lambda p, edge, _: down[edge] if p == pod else None)
        yield Route(fabric.identities, next_hops(fabric, up))

    def _core_routes(self, fabric: Fabric, switch: Switch) -> Iterator[Route]:
        for pod, port in enumerate(switch.ports):
            for plan in self._plans(fabric):
                yield Route(plan.prefix((pod,)), next_hops(fabric, [port]))
        yield from self._identities(fabric, lambda pod, _edge, _i: switch.ports[pod])

    def _other_pods(self, fabric: Fabric, own: int, up: list[Port]) -> Iterator[Route]:
        for pod in range(self.ports_per_switch):
            for plan in self._plans(fabric) if pod != own else ():
                yield Route(plan.prefix((pod,)), next_hops(fabric, up))

    def _identities(self, fabric: Fabric, behind: _Behind) -> Iterator[Route]:
        k = self.ports_per_switch
        for server in fabric.servers:
            found = [behind(*_slot(server.rank * self.nics + nic, k)) for nic in range(self.nics)]
            if ports := [port for port in dict.fromkeys(found) if port is not None]:
                yield Route(IPv4Network(server.identity), next_hops(fabric, ports))

    def _plans(self, fabric: Fabric) -> list[Plan]:
        return [self.port_plan(level, subnet) for level, subnet in enumerate(fabric.subnets)]

    def paths(self, fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
        """Yield, for each NIC, one way from it to the target's same NIC.

        It is one of the ways of equal cost among which the switches choose by hash; another one for every NIC
        as long as there are enough. The ways of two NICs at one edge switch share that switch.
        """
        k, half = self.ports_per_switch, self.ports_per_switch // 2
        for nic, arrival in enumerate(target.ports):
            pod, edge, _ = _slot(source.rank * self.nics + nic, k)
            to_pod, to_edge, _ = _slot(target.rank * self.nics + nic, k)
            aggregation, index = nic % half, nic // half % half
            way = [source.name, _edge_name(pod, edge)]
            if pod != to_pod:
                way.append(_aggregation_name(pod, aggregation))
                way.append(_core_name(aggregation, index, k))
            if (pod, edge) != (to_pod, to_edge):
                way.append(_aggregation_name(to_pod, aggregation))
                way.append(_edge_name(to_pod, to_edge))
            senders = {source.name: source.ports[nic]}
            yield routers.path(fabric, [*way, target.name], senders, arrival)

    def equal_ways(self, path: Path) -> int:
        half = self.ports_per_switch // 2
        return {2: 1, 4: half, 6: half**2}[len(path.hops)]

    def draw(self, fabric: Fabric) -> Drawing:
        """Stack servers, edge, aggregation and core switches, with the pods side by side."""
        k, half = self.ports_per_switch, self.ports_per_switch // 2
        slot = 0.4 + text_width(fabric.servers[0].name)
        share = max(0.8, -(-half // self.nics) * slot + 0.15)  # width of an edge switch and its servers
        pod_gap = 0.3

        def centre(index: int) -> float:
            return share * index + pod_gap * (index // half)

        boxes: dict[str, Box] = {}
        for edge in range(k * half):
            members = [server for server in fabric.servers if server.rank * self.nics // half == edge]
            if members:
                row = layout_layers.server_row(members, [0.0] * len(members))
                middle = sum(span(row.values())) / 2
                boxes |= {name: replace(box, x=box.x - middle + centre(edge)) for name, box in row.items()}
        left, right = -share / 2, centre(k * half - 1) + share / 2
        rise = max(1.15, 0.06 * (right - left))
        for level in (0, 1):
            for index, switch in enumerate(switch for switch in fabric.switches if switch.level == level):
                width = min(0.36 + text_width(switch.name), 0.9 * share)
                x, y, height = centre(index), 1.0 + rise * level, layout_layers.SWITCH_HEIGHT
                boxes[switch.name] = Box(switch.name, "switch", level, x, y, width, height)
        cores = [switch for switch in fabric.switches if switch.level == 2]
        boxes |= layout_layers.switch_row(cores, left, right, 1.0 + 2.25 * rise)
        pods = tuple(
            Region(f"pod {pod}", centre(pod * half) - share / 2, -0.56, half * share, rise + 1.86)
            for pod in range(k)
        )
        return Drawing(boxes, tuple(layout_layers.wires(fabric, boxes)), pods)

    def diagram(self, fabric: Fabric) -> Iterator[Line]:
        """Yield core, aggregation and edge switches, then the servers."""
        for layer in (2, 1, 0):
            yield diagram.heading(_LAYERS[layer])
            found = [switch for switch in fabric.switches if switch.level == layer]
            yield from diagram.wrapped(diagram.switch_cells(found))
        yield diagram.heading("servers")
        yield from diagram.wrapped(diagram.server_cells(fabric.servers))


def _slot(slot: int, k: int) -> tuple[int, int, int]:
    """Return a host slot's pod, edge switch and port there."""
    half = k // 2
    return slot // half**2, slot // half % half, slot % half


def _edge_name(pod: int, edge: int) -> str:
    return f"p{pod}e{edge}"


def _aggregation_name(pod: int, aggregation: int) -> str:
    return f"p{pod}a{aggregation}"


def _core_name(aggregation: int, index: int, k: int) -> str:
    """Return the name of the core switch at port `index` of every pod's aggregation switch `aggregation`."""
    return f"c{aggregation * (k // 2) + index}"


def _place(switch: Switch) -> tuple[int, int]:
    """Return an edge or aggregation switch's pod and its number there."""
    pod, index = re.findall(r"\d+", switch.name)
    return int(pod), int(index)
