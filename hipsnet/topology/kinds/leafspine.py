# SPDX-License-Identifier: Apache-2.0
"""Leaf-spine: a Clos network of two tiers, every leaf with `uplinks` cables to every spine.

All NICs of a server are at its own leaf. Every cable is a /31 and every switch a router. Cables of layer 0
join servers and leaves, of layer 1 leaves and spines. A leaf sends up by any of its spines * uplinks cables
(ECMP), a spine down by any of the cables to the leaf. Every prefix names a leaf, so that an address that is not
in use finds no route and no loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any, ClassVar, Literal

from pydantic import Field

from hipsnet.topology import diagram, layout_layers
from hipsnet.topology.addressing import Numbering, Plan
from hipsnet.topology.diagram import Line
from hipsnet.topology.fabric import Fabric, Path, Route, Server, Switch
from hipsnet.topology.kinds import routers
from hipsnet.topology.kinds.kind import Census, FabricKind
from hipsnet.topology.kinds.routers import LOWER, UPPER, Plug, level_ports, next_hops
from hipsnet.topology.picture import Box, Drawing, span, text_width

_LEAF, _SPINE = 0, 1


class LeafSpine(FabricKind):
    """A leaf-spine network: a Clos of two tiers of switches that route, optionally oversubscribed."""

    kind: Literal["leafspine"]
    leaves: int = Field(ge=1, le=1024, description="leaf switches")
    spines: int = Field(ge=1, le=256, description="spine switches")
    servers: int = Field(ge=1, le=1024, description="servers at each leaf")
    nics: int = Field(default=1, ge=1, le=16, description="ports of every server, all at its leaf")
    uplinks: int = Field(
        default=1,
        ge=1,
        le=16,
        description="cables from each leaf to each spine; fewer than servers x nics / spines oversubscribe",
    )

    example: ClassVar[dict[str, Any]] = {"leaves": 3, "spines": 2, "servers": 2}
    level_noun: ClassVar[str] = "layer"

    @property
    def title(self) -> str:
        down, up = self.servers * self.nics, self.spines * self.uplinks
        share = f", oversubscribed {down / up:.3g}:1" if down > up and self.leaves > 1 else ""
        return f"Leaf-spine({self.leaves},{self.spines}){share}"

    @property
    def radices(self) -> tuple[int, ...]:
        return (self.servers, self.leaves)

    @property
    def ports_per_server(self) -> int:
        return self.nics

    @property
    def switch_ports(self) -> int:
        return max(self.servers * self.nics + self.spines * self.uplinks, self.leaves * self.uplinks)

    @property
    def port_count(self) -> int:
        return 2 * self.leaves * (self.servers * self.nics + self.spines * self.uplinks)

    @property
    def cable_levels(self) -> tuple[str, ...]:
        return ("server\u2013leaf", "leaf\u2013spine")

    @property
    def census(self) -> Census:
        down, up = self.servers * self.nics, self.spines * self.uplinks
        switches, cables = self.leaves + self.spines, self.leaves * (down + up)
        if self.leaves == 1:
            return Census(switches, cables, down // 2, 2)
        return Census(switches, cables, min(self.leaves * down // 2, self.leaves // 2 * up), 4)

    @classmethod
    def fitting(cls, servers: int, ports: int, switch_ports: int) -> Iterator[LeafSpine]:
        """Half of a leaf's ports lead up, one to each spine, so that it does not oversubscribe."""
        for nics in range(1, min(ports, 16) + 1):
            at_leaf = next((n for n in range(switch_ports // 2 // nics, 0, -1) if servers % n == 0), 0)
            if not at_leaf or not 1 < servers // at_leaf <= min(switch_ports, 1024) or at_leaf > 1024:
                continue
            if (spines := at_leaf * nics) <= 256:
                yield cls(
                    kind="leafspine", leaves=servers // at_leaf, spines=spines, servers=at_leaf, nics=nics
                )

    @property
    def is_nonblocking(self) -> bool:
        return self.leaves == 1 or self.servers * self.nics <= self.spines * self.uplinks

    def misfit(self) -> str | None:
        return "1 server" if self.leaves * self.servers < 2 else None

    def smaller(self) -> Iterator[Iterable[LeafSpine]]:
        if self.leaves * self.servers < 2:
            yield [self.altered(servers=2)]
            return
        for name in ("leaves", "servers", "spines"):
            yield (self.altered(**{name: size}) for size in range(getattr(self, name) - 1, 0, -1))

    def describe(self) -> str:
        return f"{self.leaves} leaves x {self.servers} servers x {self.nics} NICs with {self.spines} spines"

    def port_plan(self, level: int, subnet: IPv4Network) -> Plan:
        """The leaf, its port on that side, then which end."""
        ports = (self.servers * self.nics, self.spines * self.uplinks)[level]
        return Plan(subnet, (self.leaves, ports), 1)

    def build(self, numbering: Numbering) -> Fabric:
        """The ports of a leaf are first those towards the servers, then those towards the spines in order."""
        slots: list[list[Plug]] = [
            [(0, (leaf, server * self.nics + nic), LOWER) for nic in range(self.nics)]
            for leaf in range(self.leaves)
            for server in range(self.servers)
        ]
        return routers.assemble(self, numbering, slots, dict(self._routers()))

    def _routers(self) -> Iterator[tuple[str, tuple[int, list[Plug]]]]:
        for leaf in range(self.leaves):
            down: list[Plug] = [(0, (leaf, port), UPPER) for port in range(self.servers * self.nics)]
            up: list[Plug] = [(1, (leaf, port), LOWER) for port in range(self.spines * self.uplinks)]
            yield _leaf_name(leaf), (_LEAF, down + up)
        for spine in range(self.spines):
            cables = range(spine * self.uplinks, (spine + 1) * self.uplinks)
            yield (
                _spine_name(spine),
                (_SPINE, [(1, (leaf, cable), UPPER) for leaf in range(self.leaves) for cable in cables]),
            )

    def routes(self, fabric: Fabric, node: Server | Switch) -> Iterator[Route]:
        """Yield a node's routes; the addresses of the switches are reached, too."""
        if isinstance(node, Server):
            return routers.server_routes(fabric, node)
        return self._leaf_routes(fabric, node) if node.level == _LEAF else self._spine_routes(fabric, node)

    def _leaf_routes(self, fabric: Fabric, switch: Switch) -> Iterator[Route]:
        own, up = int(switch.name.removeprefix("leaf")), level_ports(switch, 1)
        for leaf in range(self.leaves):
            for plan in self._plans(fabric) if leaf != own else ():
                yield Route(plan.prefix((leaf,)), next_hops(fabric, up))
        for server in fabric.servers[own * self.servers : (own + 1) * self.servers]:
            ports = [fabric.peer(port) for port in server.ports]
            yield Route(IPv4Network(server.identity), next_hops(fabric, ports))

    def _spine_routes(self, fabric: Fabric, switch: Switch) -> Iterator[Route]:
        for leaf in range(self.leaves):
            down = switch.ports[leaf * self.uplinks : (leaf + 1) * self.uplinks]
            for plan in self._plans(fabric):
                yield Route(plan.prefix((leaf,)), next_hops(fabric, down))

    def _plans(self, fabric: Fabric) -> list[Plan]:
        """The plans of ports and identities; all begin with the leaf."""
        ports = [self.port_plan(level, subnet) for level, subnet in enumerate(fabric.subnets)]
        return [*ports, self.identity_plan(fabric.identities)]

    def paths(self, fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
        """Yield, for each NIC, one way from it to the target's same NIC; another uplink for every NIC.

        It is one of the ways of equal cost among which the leaf chooses by hash. All share the two leaves.
        """
        first, last = (_leaf_name(server.digits[1]) for server in (source, target))
        for nic, arrival in enumerate(target.ports):
            way, senders = [source.name, first], {source.name: source.ports[nic]}
            if first != last:
                cable = nic % (self.spines * self.uplinks)
                spine = fabric.nodes[_spine_name(cable // self.uplinks)]
                down = target.digits[1] * self.uplinks + cable % self.uplinks
                senders[first] = fabric.nodes[first].ports[self.servers * self.nics + cable]
                senders[spine.name] = spine.ports[down]
                way += [spine.name, last]
            yield routers.path(fabric, [*way, target.name], senders, arrival)

    def equal_ways(self, path: Path) -> int:
        return 1 if len(path.hops) == 2 else self.spines * self.uplinks**2

    def draw(self, fabric: Fabric) -> Drawing:
        """Stack servers, leaves and spines; a leaf stands above its servers."""
        boxes: dict[str, Box] = {}
        leaves = [switch for switch in fabric.switches if switch.level == _LEAF]
        width = 0.36 + text_width(leaves[-1].name)
        x = 0.0
        for leaf in leaves:
            row = layout_layers.server_row(diagram.attached(fabric, leaf), [0.0] * self.servers)
            left, right = span(row.values())
            share = max(right - left, width) + 0.35
            middle = x + share / 2
            boxes |= {name: replace(box, x=box.x - (left + right) / 2 + middle) for name, box in row.items()}
            boxes[leaf.name] = Box(
                leaf.name, "switch", _LEAF, middle, 1.2, width, layout_layers.SWITCH_HEIGHT
            )
            x += share
        spines = [switch for switch in fabric.switches if switch.level == _SPINE]
        needed = self.spines * (0.5 + text_width(spines[-1].name) + 0.03 * len(spines[0].ports))
        left, right = x / 2 - max(x, needed) / 2, x / 2 + max(x, needed) / 2
        boxes |= layout_layers.switch_row(spines, left, right, 1.2 + max(1.35, 0.08 * x))
        return Drawing(boxes, tuple(layout_layers.wires(fabric, boxes)))

    def diagram(self, fabric: Fabric) -> Iterator[Line]:
        """Yield the spines, then each leaf with its servers."""
        yield diagram.heading("spines")
        spines = [switch for switch in fabric.switches if switch.level == _SPINE]
        yield from diagram.wrapped(diagram.switch_cells(spines))
        yield diagram.heading("leaves with their servers")
        for leaf in fabric.switches:
            if leaf.level == _LEAF:
                yield from diagram.with_servers(fabric, leaf)


def _leaf_name(leaf: int) -> str:
    return f"leaf{leaf}"


def _spine_name(spine: int) -> str:
    return f"spine{spine}"
