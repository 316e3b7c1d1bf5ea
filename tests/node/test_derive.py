# SPDX-License-Identifier: Apache-2.0
"""Desired state derived from a topology: a server and a switch, spelled out."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

import pytest

from hipsnet.errors import InputError
from hipsnet.node import queues
from hipsnet.node.actual import Actual, ActualLink
from hipsnet.node.changes import changes
from hipsnet.node.derive import node_config
from hipsnet.node.desired import NeighbourConfig, NodeConfig, RouteConfig, TableEntry
from hipsnet.topology import build, parse
from orchestrator.lab import soft_switch_config
from orchestrator.lab.soft_switch_config import Sockets

BCUBE = """
version: 1
name: demo
fabric: {kind: bcube, n: 3, levels: 2}
link: {rate: 500Mbit/s, mtu: 9000}
"""
FATTREE = BCUBE.replace("{kind: bcube, n: 3, levels: 2}", "{kind: fattree, servers: 4, nics: 1}")
HOSTS = BCUBE + "nodes:\n" + "".join(
    f"  s{a}{b}: {{ports: [{{interface: eth1}}, {{interface: eth2}}]}}\n" for a in range(3) for b in range(3)
)  # fmt: skip


def config_of(text: str, node: str) -> NodeConfig:
    topology = parse(text, "test.yaml")
    return node_config(topology, build(topology), node)


def networks(*texts: str) -> list[IPv4Network]:
    return [IPv4Network(text) for text in texts]


def test_a_server_of_bcube_3_2() -> None:
    config = config_of(BCUBE, "s01")
    loopback, p0, p1 = config.links
    assert loopback.addresses == (IPv4Interface("10.255.0.1/32"),)
    assert (p0.name, p0.addresses, p0.mtu, p0.rate_bps) == (
        "p0",
        (IPv4Interface("10.0.0.2/29"),),
        9000,
        5 * 10**8,
    )
    assert (p1.addresses, p1.runs) == ((IPv4Interface("10.1.0.9/29"),), "forward")
    assert p0.alias == "hipsnet demo s01.p0:l0g0.p1"
    assert {(entry.link, str(entry.address)) for entry in config.neighbours} == {
        ("p0", "10.0.0.1"), ("p0", "10.0.0.3"), ("p1", "10.1.0.10"), ("p1", "10.1.0.11"),
    }  # fmt: skip
    assert (
        RouteConfig(IPv4Network("10.255.0.4/30"), (("p1", IPv4Address("10.1.0.10")),), 111) in config.routes
    )
    assert RouteConfig(IPv4Network("10.0.0.0/29"), (("p0", None),), 111) in config.routes
    assert config.sysctls["net/ipv4/ip_forward"] == "1"
    assert config.sysctls["net/ipv4/tcp_limit_output_bytes"] == "125000"
    assert config.sysctls["net/ipv4/tcp_notsent_lowat"] == "1000000"
    free = config_of(BCUBE.replace("rate: 500Mbit/s", "rate: unlimited"), "s01")
    assert free.sysctls["net/ipv4/tcp_limit_output_bytes"] == str(4 << 20)
    assert free.sysctls["net/ipv4/tcp_notsent_lowat"] == str(2**32 - 1)
    assert config.sysctls["net/ipv6/conf/p1/disable_ipv6"] == "1"


def test_the_table_lists_local_neighbour_and_remote_addresses() -> None:
    config = config_of(BCUBE, "s01")
    table = {entry.prefix: entry for entry in config.table}
    local = [prefix for prefix, entry in table.items() if entry.port is None]
    assert sorted(local) == sorted(networks("10.255.0.1/32", "10.0.0.2/32", "10.1.0.9/32"))
    macs = {str(entry.address): entry.mac for entry in config.neighbours}
    assert table[IPv4Network("10.1.0.10/32")] == TableEntry(IPv4Network("10.1.0.10/32"), 1, macs["10.1.0.10"])
    assert table[IPv4Network("10.255.0.4/30")] == TableEntry(
        IPv4Network("10.255.0.4/30"), 1, macs["10.1.0.10"]
    )
    beyond = [route for route in config.routes if route.hops[0][1]]
    assert len(table) == len(config.table) == 3 + 4 + len(beyond)


def test_a_server_and_a_soft_switch_have_one_map_of_dscps() -> None:
    lossless = BCUBE + "lab: {switch: lossless}\npfc: {priorities: [4]}\nroce: {priority: 4, dscp: 26}\n"
    lossless += "nic: {dscp: [{dscp: 10, priority: 1}]}\n"
    priorities = config_of(lossless, "s01").priorities
    assert dict(enumerate(priorities)) == {dscp: {26: 4, 10: 1, 48: 6}.get(dscp, 0) for dscp in range(64)}
    topology = parse(lossless, "test.yaml")
    fabric = build(topology)
    sockets = {
        switch.name: Sockets(1, tuple(range(len(switch.ports))), (None,) * len(switch.ports))
        for switch in fabric.switches
    }
    lines = soft_switch_config.text(topology, fabric, "counters", sockets).splitlines()
    found = [line for line in lines if line.startswith("dscp ")]
    assert found == [f"dscp {dscp} {priority}" for dscp, priority in enumerate(priorities)]
    assert config_of(lossless, "l0g0").priorities == ()


def test_a_switch_of_bcube_is_a_bridge_and_one_of_a_fat_tree_a_router() -> None:
    bridge = config_of(BCUBE, "l1g2")
    assert [link.name for link in bridge.links] == ["lo", "br0", "p0", "p1", "p2"]
    assert {link.master for link in bridge.ports} == {"br0"}
    assert {link.program for link in bridge.ports} == {"cable"}
    assert (bridge.routes, bridge.neighbours, bridge.table) == ((), (), ())
    topology = parse(FATTREE, "test.yaml")
    fabric = build(topology)
    for switch in fabric.switches:
        router = node_config(topology, fabric, switch.name)
        assert {link.master for link in router.ports} == {None}
        assert len(router.neighbours) == sum(port.address is not None for port in switch.ports)
        assert router.sysctls["net/ipv4/fib_multipath_hash_policy"] == "1"
    assert any(
        len(route.hops) > 1
        for switch in fabric.switches
        for route in node_config(topology, fabric, switch.name).routes
    )


def test_a_host_keeps_its_own_names_macs_and_queues() -> None:
    config = config_of(HOSTS, "s01")
    assert [(link.name, link.kind, link.mac, link.shaped) for link in config.ports] == [
        ("eth1", "card", None, False),
        ("eth2", "card", None, False),
    ]
    assert NeighbourConfig("eth2", IPv4Address("10.1.0.10"), None) in config.neighbours
    assert {key.split("/")[-2] for key in config.sysctls} == {"eth1", "eth2"}, "those of its ports alone"
    assert config.sysctls["net/ipv4/conf/eth1/forwarding"] == "1"
    assert config.sysctls["net/ipv4/conf/eth2/rp_filter"] == "2"
    assert {entry.mac for entry in config.table} == {None}
    assert {route.window for route in config.routes} == {None}
    assert all(via for route in config.routes for _, via in route.hops)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("  s01: {", "  s99: {", "s01"), ("[{interface: eth1}, {interface: eth2}]", "[{interface: eth1}]", "2")],
)
def test_an_incomplete_host_section_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        config_of(HOSTS.replace(old, new), "s01")


def as_it_should_be(config: NodeConfig) -> Actual:
    """The actual state of a node that is exactly as desired."""
    links = {}
    for index, link in enumerate(config.links):
        fields: dict[str, Any] = {
            "mac": link.mac or "", "mtu": link.mtu or 1500, "alias": link.alias, "master": link.master,
            "rate_bps": link.rate_bps,
            "queue_bytes": link.rate_bps and queues.port_bytes(link.rate_bps, link.mtu or 0),
            "offloads": link.features, "addresses": frozenset(link.addresses),
        }  # fmt: skip
        links[link.name] = ActualLink(index, link.name, up=True, carrier=True, **fields)
    return Actual(
        links,
        frozenset(config.routes),
        frozenset(),
        frozenset(config.neighbours),
        sysctls=dict(config.sysctls),
        table=frozenset(config.table),
        program_differences=(),
    )


@pytest.mark.parametrize("text", [BCUBE, FATTREE])
def test_a_node_that_is_as_desired_has_no_changes_and_one_that_is_not_there_has_all(text: str) -> None:
    topology = parse(text, "test.yaml")
    fabric = build(topology)
    for node in fabric.nodes:
        config = node_config(topology, fabric, node)
        assert changes(config, as_it_should_be(config)) == []
        everything = changes(config, Actual())
        added = [change.subject for change in everything if change.aspect == "route"]
        assert added == [str(route.prefix) for route in config.routes]
        assert {change.action for change in everything} == {"add"}
        routes = [number for number, change in enumerate(everything) if change.aspect == "route"]
        up = [number for number, change in enumerate(everything) if change.aspect == "state"]
        assert not routes or max(up) < min(routes)
