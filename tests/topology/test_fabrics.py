# SPDX-License-Identifier: Apache-2.0
"""Fabrics have the servers, switches, cables and addresses of their definitions."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from hipsnet.errors import InputError
from hipsnet.topology import build, find_server, parse
from hipsnet.topology.kinds import Dragonfly, LeafSpine
from tests.topology.conftest import MakeFabric


def test_counts(make_fabric: MakeFabric) -> None:
    counts = {
        "bcube(3,2)": (9, 6, 18),
        "bcube(8,2)": (64, 16, 128),
        "bcube(2,3)": (8, 12, 24),
        "torus(3,3)": (9, 0, 18),
        "torus(4,4)": (16, 0, 32),
        "torus(2,3,2)": (12, 0, 6 + 12 + 6),
        "torus(2,2)": (4, 0, 4),
        "fattree(9)": (9, 20, 9 + 16 + 16),
        "fattree(9x2)": (9, 45, 18 + 54 + 54),
        "fattree(2)": (2, 5, 2 + 2 + 2),
    }
    for shape, expected in counts.items():
        fabric = make_fabric(shape)
        assert (len(fabric.servers), len(fabric.switches), len(fabric.links)) == expected, shape


def test_every_port_is_at_its_index_and_has_one_cable(shape: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(shape)
    ends = [end for link in fabric.links for end in (link.a, link.b)]
    ports = [port for node in fabric.nodes.values() for port in node.ports]
    assert len(ends) == len(set(ends)) == len(ports)
    assert set(ends) == set(ports)
    for node in fabric.nodes.values():
        assert [port.index for port in node.ports] == list(range(len(node.ports)))
        assert {port.node for port in node.ports} == {node.name}
    for port in ports:
        assert fabric.peer(fabric.peer(port)) == port


def test_addresses_and_macs_are_unique(shape: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(shape)
    ports = [port for node in fabric.nodes.values() for port in node.ports]
    addresses = [port.address.ip for port in ports if port.address] + [s.identity for s in fabric.servers]
    assert len(set(addresses)) == len(addresses)
    assert len({port.mac for port in ports}) == len(ports)
    assert all(port.mac.startswith("02:48:") for port in ports)
    for port in ports:
        if port.address and port.address.network.prefixlen < 31:
            assert port.address.ip not in (
                port.address.network.network_address,
                port.address.network.broadcast_address,
            )


def test_an_address_identifies_the_level(shape: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(shape)
    for node in fabric.nodes.values():
        for port in node.ports:
            if port.address:
                assert port.address.ip in fabric.subnets[port.level]
    assert all(server.identity in fabric.identities for server in fabric.servers)


def test_ends_of_a_cable_share_a_subnet_that_no_other_cable_has(shape: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(shape)
    segments: dict[object, set[str]] = {}
    for link in fabric.links:
        for end in (link.a, link.b):
            if end.address:
                segment = link.b.node if link.b.address is None else link.name
                segments.setdefault(end.address.network, set()).add(segment)
    assert all(len(places) == 1 for places in segments.values())


def test_bcube_neighbours_differ_in_one_digit(bcube: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(bcube)
    assert len(fabric.servers) == math.prod(fabric.dims)
    for switch in fabric.switches:
        members = [fabric.nodes[fabric.peer(port).node] for port in switch.ports]
        for a, b in itertools.combinations(members, 2):
            differing = [d for d in range(len(fabric.dims)) if a.digits[d] != b.digits[d]]
            assert differing == [switch.level]
        assert [member.digits[switch.level] for member in members] == list(range(fabric.dims[0]))
        assert {fabric.peer(port).index for port in switch.ports} == {switch.level}


def test_bcube_addresses_by_hand(make_fabric: MakeFabric) -> None:
    servers = make_fabric("bcube(3,2)").nodes
    s12 = servers["s12"]
    assert (s12.rank, s12.digits) == (5, (2, 1))
    # Level 0: group = digit 1 = 1, host = digit 0 + 1 = 3, three host bits.
    assert str(s12.ports[0].address) == "10.0.0.11/29"
    assert str(s12.ports[1].address) == "10.1.0.18/29"
    assert str(s12.identity) == "10.255.0.6"
    assert make_fabric("bcube(3,2)").switches[4].name == "l1g1"


def test_torus_cables_step_by_one(torus: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(torus)
    for link in fabric.links:
        a, b = fabric.nodes[link.a.node], fabric.nodes[link.b.node]
        side = fabric.dims[link.a.level]
        step = [(y - x) % s for x, y, s in zip(a.digits, b.digits, fabric.dims, strict=True)]
        assert step == [int(d == link.a.level) for d in range(len(fabric.dims))]
        assert (link.a.direction, link.b.direction) == ((1, -1) if side > 2 else (0, 0))
        assert int(link.b.address.ip) == int(link.a.address.ip) + 1


def test_torus_ports_are_plus_then_minus_and_one_on_a_side_of_two(make_fabric: MakeFabric) -> None:
    server = make_fabric("torus(2,3,2)").servers[0]
    assert [(port.level, port.direction) for port in server.ports] == [(0, 0), (1, 1), (1, -1), (2, 0)]
    assert str(server.identity) == "10.255.0.0"
    assert str(make_fabric("torus(2,3,2)").nodes["s121"].identity) == "10.255.0.13"


def test_fattree_is_three_layers(fattree: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(fattree)
    k = len(fabric.switches[-1].ports)
    layers = [[s for s in fabric.switches if s.level == layer] for layer in range(3)]
    assert [len(layer) for layer in layers] == [k * k // 2, k * k // 2, k * k // 4]
    assert all(len(switch.ports) == k for switch in layers[1] + layers[2])
    assert all(len(switch.ports) <= k for switch in layers[0])
    for core in layers[2]:
        pods = [fabric.peer(port).node.split("a")[0] for port in core.ports]
        assert pods == [f"p{pod}" for pod in range(k)]


def test_fattree_takes_the_smallest_k_that_fits(make_fabric: MakeFabric) -> None:
    for servers, nics, k in [(2, 1, 2), (3, 1, 4), (16, 1, 4), (17, 1, 6), (9, 2, 6), (54, 1, 6), (55, 1, 8)]:
        fabric = make_fabric(f"{{kind: fattree, servers: {servers}, nics: {nics}}}")
        assert len(fabric.switches[-1].ports) == k


def test_names_keep_digits_apart_when_a_side_has_more_than_ten(make_fabric: MakeFabric) -> None:
    fabric = make_fabric("{kind: torus, dims: [12, 2]}")
    assert fabric.servers[-1].name == "s111"
    assert fabric.servers[0].name == "s000"
    assert len({server.name for server in fabric.servers}) == 24
    assert make_fabric("{kind: fattree, servers: 11}").servers[3].name == "s03"


def test_base_prefixes_are_settable() -> None:
    text = (
        "version: 1\nname: demo\nfabric: {kind: bcube, n: 3, levels: 2}\n"
        "addresses: {ports: 172.16.0.0/12, identity: 192.168.0.0/24}\n"
    )
    server = build(parse(text, "t.yaml")).servers[-1]
    assert [str(port.address) for port in server.ports] == ["172.16.0.19/29", "172.17.0.19/29"]
    assert str(server.identity) == "192.168.0.10"


def test_fabrics_of_different_names_share_no_mac(make_fabric: MakeFabric) -> None:
    text = "version: 1\nname: other\nfabric: {kind: bcube, n: 3, levels: 2}\n"
    other = {port.mac for node in build(parse(text, "t.yaml")).nodes.values() for port in node.ports}
    demo = {port.mac for node in make_fabric("bcube(3,2)").nodes.values() for port in node.ports}
    assert not other & demo


def test_hosts_may_bring_their_macs() -> None:
    text = (
        "version: 1\nname: demo\nfabric: {kind: bcube, n: 2, levels: 1}\nnodes:\n"
        "  s0: {ports: [{interface: eth1, mac: '52:54:00:12:34:56'}]}\n"
        "  s1: {ports: [{interface: eth1}]}\n"
    )
    fabric = build(parse(text, "t.yaml"))
    assert fabric.servers[0].ports[0].mac == "52:54:00:12:34:56"
    assert fabric.servers[1].ports[0].mac.startswith("02:48:")
    assert fabric.links[0].a.mac == "52:54:00:12:34:56"


def test_find_server_with_and_without_its_s(make_fabric: MakeFabric) -> None:
    fabric = make_fabric("bcube(3,2)")
    assert find_server(fabric, "01") is find_server(fabric, "s01") is fabric.servers[1]
    with pytest.raises(InputError, match=r"no server 's2'.*9 servers, s00, s01, .*s22; did you mean s22"):
        find_server(fabric, "s2")
    with pytest.raises(InputError, match="no server 'l0g0'"):
        find_server(fabric, "l0g0")


def test_leafspine_joins_every_leaf_with_every_spine(leafspine: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(leafspine)
    shape = fabric.shape
    assert isinstance(shape, LeafSpine)
    between = Counter((link.a.node, link.b.node) for link in fabric.links if link.a.level == 1)
    leaves = [switch.name for switch in fabric.switches if switch.level == 0]
    spines = [switch.name for switch in fabric.switches if switch.level == 1]
    assert between == dict.fromkeys(itertools.product(leaves, spines), shape.uplinks)
    for server in fabric.servers:
        assert {fabric.peer(port).node for port in server.ports} == {f"leaf{server.digits[1]}"}


@pytest.mark.parametrize(
    ("flow", "title"),
    [
        ("{kind: leafspine, leaves: 4, spines: 2, servers: 2}", "Leaf-spine(4,2)"),
        ("{kind: leafspine, leaves: 4, spines: 2, servers: 3}", "Leaf-spine(4,2), oversubscribed 1.5:1"),
        ("{kind: leafspine, leaves: 4, spines: 2, servers: 4, uplinks: 2}", "Leaf-spine(4,2)"),
        (
            "{kind: leafspine, leaves: 4, spines: 2, servers: 4, nics: 2}",
            "Leaf-spine(4,2), oversubscribed 4:1",
        ),
        ("{kind: leafspine, leaves: 1, spines: 1, servers: 4}", "Leaf-spine(1,1)"),
    ],
)
def test_a_leafspine_says_how_far_it_is_oversubscribed(
    flow: str, title: str, make_fabric: MakeFabric
) -> None:
    assert make_fabric(flow).shape.title == title


def test_dragonfly_by_its_definition(dragonfly: str, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(dragonfly)
    shape = fabric.shape
    assert isinstance(shape, Dragonfly)
    routers = list(itertools.product(range(shape.groups), range(shape.routers)))
    assert [switch.name for switch in fabric.switches] == [f"g{group}r{router}" for group, router in routers]
    local = Counter(frozenset((link.a.node, link.b.node)) for link in fabric.links if link.a.level == 1)
    cables = [
        frozenset((f"g{group}r{a}", f"g{group}r{b}"))
        for group in range(shape.groups)
        for a, b in itertools.combinations(range(shape.routers), 2)
    ]
    assert local == dict.fromkeys(cables, 1)
    between = Counter(
        tuple(sorted(int(end.node[1:].split("r")[0]) for end in (link.a, link.b)))
        for link in fabric.links
        if link.a.level == 2
    )
    each = shape.routers * shape.global_links // (shape.groups - 1)
    assert between == dict.fromkeys(itertools.combinations(range(shape.groups), 2), each)
    for switch in fabric.switches:
        assert sum(port.level == 2 for port in switch.ports) <= shape.global_links
        assert len(switch.ports) <= shape.switch_ports


def test_a_balanced_dragonfly_by_hand(make_fabric: MakeFabric) -> None:
    """p=2, a=4, h=2, g=9, as in figure 5 of the ISCA 2008 paper: 72 servers, routers of 7 ports."""
    fabric = make_fabric("{kind: dragonfly, groups: 9, routers: 4, servers: 2, global_links: 2}")
    assert (len(fabric.servers), len(fabric.switches), len(fabric.links)) == (72, 36, 72 + 54 + 36)
    assert {len(switch.ports) for switch in fabric.switches} == {7}
    # Global port q of group 0 leads to group q + 1, whose port 0 leads back; port 6 is the first of router 3.
    peer = fabric.peer(fabric.nodes["g0r3"].ports[5])
    assert (peer.node, peer.index, str(peer.address)) == ("g7r0", 5, "10.2.0.13/31")
    assert str(fabric.nodes["s831"].ports[0].address) == "10.0.0.142/31"
