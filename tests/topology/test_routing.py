# SPDX-License-Identifier: Apache-2.0
"""Packets that follow the route tables hop by hop arrive, and along the paths that `paths` names."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Path, Server, build, parse, paths, routes
from hipsnet.topology.kinds import Dragonfly, FatTree
from tests.topology.conftest import MakeFabric, MakePackets, Packets


def pairs(fabric: Fabric) -> Iterator[tuple[Server, Server]]:
    return itertools.permutations(fabric.servers, 2)


def distance(fabric: Fabric, a: Server, b: Server) -> int:
    """Hops on a shortest way, from the definition of the fabric; where switches route, from its cables."""
    if any(switch.routes_at == "l3" for switch in fabric.switches):
        return cables_from(fabric, a)[b.name]
    steps = [(y - x) % side for x, y, side in zip(a.digits, b.digits, fabric.dims, strict=True)]
    if fabric.kind == "bcube":
        return sum(map(bool, steps))
    return sum(min(step, side - step) for step, side in zip(steps, fabric.dims, strict=True))


def cables_from(fabric: Fabric, server: Server) -> dict[str, int]:
    """The fewest cables from a server to every node; on a Dragonfly at most one of them between groups."""
    most = 1 if isinstance(fabric.shape, Dragonfly) else len(fabric.links)
    found, waiting = {server.name: 0}, deque([(server.name, 0, 0)])
    seen = {(server.name, 0)}
    while waiting:
        name, length, between = waiting.popleft()
        for port in fabric.nodes[name].ports:
            there, crossed = fabric.peer(port).node, between + (most == 1 and port.level == 2)
            if crossed <= most and (there, crossed) not in seen:
                seen.add((there, crossed))
                found.setdefault(there, length + 1)
                waiting.append((there, length + 1, crossed))
    return found


def test_every_address_of_every_server_is_reached_from_every_server(
    shape: str, make_fabric: MakeFabric, packets: MakePackets
) -> None:
    fabric = make_fabric(shape)
    fewest = {(a.name, b.name): distance(fabric, a, b) for a, b in pairs(fabric)}
    for source, target in pairs(fabric):
        addresses = [target.identity, *(port.address.ip for port in target.ports)]
        for address in addresses:
            for choice in range(1 if fabric.shape.paths_are_disjoint else 3):
                hops = packets(shape).walk(source.name, address, choice)
                assert hops[-1].receiver.node == target.name
                least = fewest[source.name, target.name]
                # A Fat-Tree's NIC j is reached by NIC j, also where another one is nearer.
                assert len(hops) == least or (isinstance(fabric.shape, FatTree) and least <= len(hops) <= 6)


def test_switches_that_route_are_reached_from_everywhere(
    routed: str, make_fabric: MakeFabric, packets: MakePackets
) -> None:
    fabric = make_fabric(routed)
    for name in fabric.nodes:
        for switch in fabric.switches:
            for port in switch.ports:
                for choice in range(3):
                    packets(routed).walk(name, port.address.ip, choice)


def test_a_fattree_server_reaches_nic_j_by_its_own_nic_j(
    make_fabric: MakeFabric, packets: MakePackets
) -> None:
    fabric = make_fabric("fattree(5x3)")
    for source, target in pairs(fabric):
        for port in target.ports:
            first = packets("fattree(5x3)").walk(source.name, port.address.ip)[0]
            assert first.sender == source.ports[port.index]


def test_tables_have_the_size_of_digit_correction(make_fabric: MakeFabric) -> None:
    for shape, n, k in (("bcube(3,2)", 3, 2), ("bcube(8,2)", 8, 2), ("bcube(2,4)", 2, 4)):
        for server in make_fabric(shape).servers:
            assert len(routes(make_fabric(shape), server.name)) == k * (k - 1) * (n - 1) + k * (n - 1)


def test_no_route_covers_an_own_or_connected_address(shape: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(shape)
    if any(switch.routes_at == "l3" for switch in fabric.switches):
        return  # its servers have one route for everything
    for server in fabric.servers:
        for route in routes(fabric, server.name):
            assert server.identity not in route.prefix
            for port in server.ports:
                assert not route.prefix.overlaps(port.address.network)


def test_no_route_takes_the_place_of_a_connected_subnet(shape: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(shape)
    for name, node in fabric.nodes.items():
        connected = {port.address.network for port in node.ports if port.address}
        assert connected.isdisjoint(route.prefix for route in routes(fabric, name))


def test_routes_are_sorted_and_unique(shape: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(shape)
    for name in fabric.nodes:
        prefixes = [route.prefix for route in routes(fabric, name)]
        assert len(set(prefixes)) == len(prefixes)
        assert prefixes == sorted(prefixes, key=lambda prefix: (prefix.prefixlen, prefix))
        assert all(route.hops for route in routes(fabric, name))


def assert_disjoint(fabric: Fabric, found: Sequence[Path]) -> None:
    """No two paths share a server between their ends, nor a cable in one direction."""
    inner = [hop.receiver.node for path in found for hop in path.hops[:-1]]
    assert len(set(inner)) == len(inner)
    sent = [hop.sender for path in found for hop in path.hops]
    received = [hop.receiver for path in found for hop in path.hops]
    assert len(set(sent)) == len(sent)
    assert len(set(received)) == len(received)


def assert_connected(fabric: Fabric, path: Path, packets: Packets) -> None:
    """The hops are joined by cables, go through no node twice, and are those that packets take."""
    assert path.hops[-1].receiver.address.ip == path.destination
    at = path.source
    visited = [at]
    for hop in path.hops:
        assert hop.sender.node == at
        assert hop.receiver in packets.adjacent(hop.sender)
        at = hop.receiver.node
        visited.append(at)
    assert at == path.target
    assert len(set(visited)) == len(visited)
    assert packets.owner_name[path.destination] == path.target
    first = path.hops[0].receiver.node
    rest = [] if first == path.target else packets.walk(first, path.destination)
    assert tuple(rest) == path.hops[1:]


def test_bcube_has_k_disjoint_paths_that_packets_really_take(
    bcube: str, make_fabric: MakeFabric, packets: MakePackets
) -> None:
    fabric = make_fabric(bcube)
    k = len(fabric.dims)
    for source, target in pairs(fabric):
        found = paths(fabric, source.name, target.name)
        assert len(found) == k
        assert_disjoint(fabric, found)
        lengths = [len(path.hops) for path in found]
        assert lengths[0] == distance(fabric, source, target)
        assert lengths == sorted(lengths)
        assert lengths[-1] <= k + 1  # theorem 3 of the BCube paper, counted in its own levels
        assert len({path.destination for path in found}) == k
        for path in found:
            assert_connected(fabric, path, packets(bcube))


def test_bcube_paths_share_no_switch(bcube: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(bcube)
    for source, target in pairs(fabric):
        used = [
            {fabric.peer(hop.sender).node for hop in path.hops}
            for path in paths(fabric, source.name, target.name)
        ]
        assert sum(map(len, used)) == len(set().union(*used))


def test_torus_has_disjoint_paths_that_packets_really_take(
    torus: str, make_fabric: MakeFabric, packets: MakePackets
) -> None:
    fabric = make_fabric(torus)
    for source, target in pairs(fabric):
        found = paths(fabric, source.name, target.name)
        assert len(fabric.dims) <= len(found) <= len(source.ports)
        if max(fabric.dims) == 3:
            assert len(found) == len(source.ports)
        assert_disjoint(fabric, found)
        assert len(found[0].hops) == distance(fabric, source, target)
        assert len({path.destination for path in found}) == len(found)
        for path in found:
            assert_connected(fabric, path, packets(torus))


def test_routers_have_a_path_for_every_nic_that_packets_may_take(
    routed: str, make_fabric: MakeFabric, packets: MakePackets
) -> None:
    fabric = make_fabric(routed)
    for source, target in pairs(fabric):
        found = paths(fabric, source.name, target.name)
        assert len(found) == len(source.ports)
        assert sorted(path.hops[0].sender.index for path in found) == list(range(len(source.ports)))
        for path in found:
            for hop in path.hops:
                assert hop in packets(routed).step(hop.sender.node, path.destination)
            assert path.hops[-1].receiver.address.ip == path.destination
            assert path.hops[-1].receiver.node == target.name


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_paths_of_any_bcube_and_torus_are_disjoint(data: st.DataObject) -> None:
    if data.draw(st.booleans(), label="bcube"):
        n, levels = data.draw(st.sampled_from([(2, 5), (3, 4), (4, 3), (6, 3), (7, 2), (16, 2), (9, 1)]))
        shape, least = f"{{kind: bcube, n: {n}, levels: {levels}}}", levels
    else:
        dims = data.draw(st.lists(st.integers(2, 9), min_size=1, max_size=3))
        shape, least = f"{{kind: torus, dims: {dims}}}", len(dims)
    fabric = build(parse(f"version: 1\nname: demo\nfabric: {shape}\n", "t.yaml"))
    ranks = st.integers(0, len(fabric.servers) - 1)
    source, target = data.draw(st.lists(ranks, min_size=2, max_size=2, unique=True))
    found = paths(fabric, fabric.servers[source].name, fabric.servers[target].name)
    assert len(found) >= least
    assert_disjoint(fabric, found)
    assert len(found[0].hops) == distance(fabric, fabric.servers[source], fabric.servers[target])


def test_a_path_needs_two_servers(make_fabric: MakeFabric) -> None:
    with pytest.raises(InputError, match="itself"):
        paths(make_fabric("bcube(3,2)"), "s00", "00")
    with pytest.raises(InputError, match="no server 'x'"):
        paths(make_fabric("bcube(3,2)"), "s00", "x")
    with pytest.raises(InputError, match="no server 'l9g9'"):
        routes(make_fabric("bcube(3,2)"), "l9g9")
    assert routes(make_fabric("bcube(3,2)"), "l0g0") == ()
