# SPDX-License-Identifier: Apache-2.0
"""Source routing: packets leave by the port of their source address, although the routes are shared."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

import pytest

from hipsnet.node import namespace
from hipsnet.node.applying import settle
from hipsnet.node.changes import changes
from hipsnet.node.context import Context, opened
from hipsnet.node.derive import node_config
from hipsnet.node.desired import LinkConfig, NodeConfig, PolicyConfig, RouteConfig
from hipsnet.node.observe import read_actual
from hipsnet.topology import build, parse

NAME = f"t{os.getpid():x}-policy"
FAR = IPv4Network("10.9.0.0/16")
GATEWAYS = (IPv4Address("10.0.0.2"), IPv4Address("10.0.1.2"))
SOURCES = (IPv4Address("10.0.0.1"), IPv4Address("10.0.1.1"))
LINKS = tuple(
    LinkConfig(f"p{port}", "cable", addresses=(IPv4Interface((source, 24)),))
    for port, source in enumerate(SOURCES)
)
SHARED = RouteConfig(FAR, (("p0", GATEWAYS[0]), ("p1", GATEWAYS[1])))
POLICIES = tuple(
    PolicyConfig(f"p{port}", SOURCES[port], (RouteConfig(FAR, ((f"p{port}", GATEWAYS[port]),)),))
    for port in (0, 1)
)
CONFIG = NodeConfig("t", "node", LINKS, routes=(SHARED,), policies=POLICIES)


@pytest.fixture
def context() -> Iterator[Context]:
    """A namespace with both ends of two cables; the thread is inside."""
    namespace.create(NAME, "a test's")
    try:
        with opened("node", NAME) as found:
            for port in (0, 1):
                found.netlink.link("add", kind="veth", ifname=f"p{port}", peer={"ifname": f"far{port}"})
                found.netlink.link("set", index=found.index(f"far{port}"), state="up")
            yield found
    finally:
        namespace.delete(NAME)


def steps(context: Context, config: NodeConfig) -> list[tuple[str, str]]:
    """Settle a node; return the changes of source rules."""
    found = changes(config, read_actual(context, config))
    settle(context, config)
    assert changes(config, read_actual(context, config)) == []
    return [(change.action, change.subject) for change in found if change.aspect == "policy"]


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout


def ways(source: IPv4Address | None) -> set[str]:
    """The egress links of packets to many destinations."""
    found = set()
    for last in range(1, 40):
        bound = ("from", str(source)) if source else ()
        text = ip("route", "get", f"10.9.{last}.7", *bound)
        found.add(re.search(r"dev (\w+)", text)[1])  # type: ignore[index]
    return found


def own_table(source: str) -> str:
    """The routes selected by our rule for a source."""
    (line,) = (
        line for line in ip("rule", "show").splitlines() if line.startswith("7200:") and source in line
    )
    return ip("route", "show", "table", line.split("lookup ")[1].split()[0])


def test_a_bound_source_leaves_by_its_own_port(context: Context) -> None:
    assert steps(context, CONFIG) == [("add", "from 10.0.0.1"), ("add", "from 10.0.1.1")]
    assert ways(None) == {"p0", "p1"}
    assert [ways(source) for source in SOURCES] == [{"p0"}, {"p1"}]
    # Since 6.18 or so the kernel prefers a bound source's port by itself; before, the tables do it.
    assert [own_table(str(source)).split()[:5] for source in SOURCES] == [
        ["10.9.0.0/16", "via", str(gateway), "dev", f"p{port}"] for port, gateway in enumerate(GATEWAYS)
    ]
    assert steps(context, CONFIG) == []
    # Forwarded packets are not sent by this node: they use the main table.
    assert all("iif lo" in line for line in ip("rule", "show").splitlines() if "10.0." in line)


def test_changes_losses_and_others_rules(context: Context) -> None:
    ip("rule", "add", "from", "10.0.0.1", "lookup", "99", "priority", "99")
    steps(context, CONFIG)
    narrower = replace(POLICIES[0], routes=(RouteConfig(IPv4Network("10.9.1.0/24"), (("p0", GATEWAYS[0]),)),))
    assert steps(context, replace(CONFIG, policies=(narrower, POLICIES[1]))) == [("change", "from 10.0.0.1")]
    assert "10.9.1.0/24 via 10.0.0.2 dev p0" in own_table("10.0.0.1")
    assert "10.9.0.0/16" not in own_table("10.0.0.1")
    ip("link", "set", "p0", "down")  # the kernel deletes the routes in its table
    assert steps(context, CONFIG) == [("change", "from 10.0.0.1")]
    ip("link", "del", "p1")
    without = replace(CONFIG, links=LINKS[:1], routes=(), policies=POLICIES[:1])
    assert steps(context, without) == [("remove", "from 10.0.1.1")]
    assert steps(context, replace(without, policies=())) == [("remove", "from 10.0.0.1")]
    assert "lookup 99" in ip("rule", "show")
    assert "7200:" not in ip("rule", "show")


def test_only_shared_routes_need_it() -> None:
    text = "version: 1\nname: demo\nfabric: {kind: %s}\n"
    tree = parse(text % "fattree, servers: 4, nics: 2", "t.yaml")
    config = node_config(tree, build(tree), "s0")
    assert [(found.link, found.source) for found in config.policies] == [
        (port.name, port.addresses[0].ip) for port in config.ports
    ]
    shared = {route.prefix: dict(route.hops) for route in config.routes if len(route.hops) > 1}
    for found in config.policies:
        assert {route.prefix: route.hops for route in found.routes} == {
            prefix: ((found.link, hops[found.link]),) for prefix, hops in shared.items()
        }
    for shape in ("bcube, n: 3, levels: 2", "torus, dims: [4, 4]"):
        topology = parse(text % shape, "t.yaml")
        fabric = build(topology)
        assert not any(node_config(topology, fabric, server.name).policies for server in fabric.servers)
