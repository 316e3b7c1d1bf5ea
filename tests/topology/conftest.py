# SPDX-License-Identifier: Apache-2.0
"""Fabrics by name, and a packet that follows the tables hop by hop, independent of the routing code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from ipaddress import IPv4Address

import pytest

from hipsnet.topology import KINDS, Fabric, Hop, Port, build, parse, routes

SHAPES = {
    "bcube(3,2)": "{kind: bcube, n: 3, levels: 2}",
    "bcube(2,3)": "{kind: bcube, n: 2, levels: 3}",
    "bcube(4,1)": "{kind: bcube, n: 4, levels: 1}",
    "bcube(3,3)": "{kind: bcube, n: 3, levels: 3}",
    "bcube(5,2)": "{kind: bcube, n: 5, levels: 2}",
    "bcube(2,4)": "{kind: bcube, n: 2, levels: 4}",
    "bcube(8,2)": "{kind: bcube, n: 8, levels: 2}",
    "torus(3,3)": "{kind: torus, dims: [3, 3]}",
    "torus(4,4)": "{kind: torus, dims: [4, 4]}",
    "torus(2,3,2)": "{kind: torus, dims: [2, 3, 2]}",
    "torus(2,2)": "{kind: torus, dims: [2, 2]}",
    "torus(6)": "{kind: torus, dims: [6]}",
    "torus(5,2,4)": "{kind: torus, dims: [5, 2, 4]}",
    "torus(2,7)": "{kind: torus, dims: [2, 7]}",
    "torus(3,2,3,2)": "{kind: torus, dims: [3, 2, 3, 2]}",
    "fattree(9)": "{kind: fattree, servers: 9}",
    "fattree(9x2)": "{kind: fattree, servers: 9, nics: 2}",
    "fattree(16)": "{kind: fattree, servers: 16}",
    "fattree(5x3)": "{kind: fattree, servers: 5, nics: 3}",
    "fattree(2)": "{kind: fattree, servers: 2}",
    "fattree(7,k=6)": "{kind: fattree, servers: 7, k: 6}",
    "leafspine(3,2)": "{kind: leafspine, leaves: 3, spines: 2, servers: 3}",
    "leafspine(2,1)": "{kind: leafspine, leaves: 2, spines: 1, servers: 1}",
    "leafspine(1,1)": "{kind: leafspine, leaves: 1, spines: 1, servers: 4}",
    "leafspine(4,3)": "{kind: leafspine, leaves: 4, spines: 3, servers: 2, nics: 2, uplinks: 2}",
    "leafspine(12,2)": "{kind: leafspine, leaves: 12, spines: 2, servers: 1, nics: 3}",
    "dragonfly(3)": "{kind: dragonfly, groups: 3, routers: 2, servers: 2, global_links: 1}",
    "dragonfly(5)": "{kind: dragonfly, groups: 5, routers: 4, servers: 1, global_links: 1}",
    "dragonfly(9)": "{kind: dragonfly, groups: 9, routers: 4, servers: 1, global_links: 2}",
    "dragonfly(4)": "{kind: dragonfly, groups: 4, routers: 3, servers: 2, global_links: 2}",
    "dragonfly(2)": "{kind: dragonfly, groups: 2, routers: 2, servers: 1, global_links: 1}",
}

MakeFabric = Callable[[str], Fabric]
MakePackets = Callable[[str], "Packets"]


@cache
def _fabric(shape: str) -> Fabric:
    text = f"version: 1\nname: demo\nfabric: {SHAPES.get(shape, shape)}\n"
    return build(parse(text, "topology.yaml"))


@pytest.fixture
def make_fabric() -> MakeFabric:
    """The fabric of that name, or of that flow mapping."""
    return _fabric


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`shape` runs through all shapes, `routed` through those with routers, `bcube` and others through a kind."""
    kinds = {kind.kind_name(): [s for s in SHAPES if s.startswith(kind.kind_name())] for kind in KINDS}
    routed = [s for s in SHAPES if s not in (*kinds["bcube"], *kinds["torus"])]
    for name, shapes in {"shape": list(SHAPES), "routed": routed, **kinds}.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, shapes)


class Packets:
    """Forwards packets by longest prefix, checking every next hop against the cables."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.owner = {
            port.address.ip: port for n in fabric.nodes.values() for port in n.ports if port.address
        }
        self.owner_name = {address: port.node for address, port in self.owner.items()}
        self.owner_name |= {server.identity: server.name for server in fabric.servers}
        self.tables = {name: routes(fabric, name) for name in fabric.nodes}

    def adjacent(self, port: Port) -> list[Port]:
        """The ports that share a cable, or a layer-2 switch, with this one."""
        peer = self.fabric.peer(port)
        node = self.fabric.nodes[peer.node]
        if getattr(node, "routes_at", None) != "l2":
            return [peer]
        return [self.fabric.peer(other) for other in node.ports if other.index != peer.index]

    def step(self, name: str, destination: IPv4Address) -> list[Hop]:
        """Every hop that a node may take towards an address."""
        node = self.fabric.nodes[name]
        for port in node.ports:
            if port.address and destination in port.address.network:
                found = [
                    other
                    for other in self.adjacent(port)
                    if other.address and other.address.ip == destination
                ]
                assert found, f"{destination} is not behind {name}.{port.name}, whose subnet it is in"
                return [Hop(port, found[0])]
        matches = [route for route in self.tables[name] if destination in route.prefix]
        assert matches, f"{name} has no route to {destination}"
        best = max(matches, key=lambda route: route.prefix.prefixlen)
        hops = []
        for hop in best.hops:
            port = node.ports[hop.port]
            receiver = self.owner[hop.via]
            assert receiver in self.adjacent(port)
            assert receiver.mac == hop.mac
            assert port.address and hop.via in port.address.network
            hops.append(Hop(port, receiver))
        return hops

    def walk(self, name: str, destination: IPv4Address, choose: int = 0) -> list[Hop]:
        """The hops from a node to the owner of an address; `choose` picks among equal ways."""
        hops: list[Hop] = []
        while self.owner_name[destination] != name:
            assert len(hops) < 64, f"a loop on the way to {destination}"
            options = self.step(name, destination)
            hops.append(options[choose % len(options)])
            name = hops[-1].receiver.node
        return hops


@cache
def _packets(shape: str) -> Packets:
    return Packets(_fabric(shape))


@pytest.fixture
def packets() -> MakePackets:
    """Packets on the fabric of that name."""
    return _packets
