# SPDX-License-Identifier: Apache-2.0
"""Several servers of a file on one host: they share its loopback and settings, and are removed one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from hipsnet.node.namespace import inside
from orchestrator.provision import hosts as hosts_of
from tests.lab.rig import Lab
from tests.lab.test_hosts import Host, provision

SERVERS = ("s00", "s01", "s10", "s11")
CABLES = (("s00p0", "s01p0"), ("s10p0", "s11p0"), ("s00p1", "s10p1"), ("s01p1", "s11p1"))


@pytest.fixture
def host(
    make_lab: Callable[..., Lab], foreign: Callable[[str], str]
) -> Iterator[tuple[Lab, dict[str, Host]]]:
    """BCube(2,2) in one namespace: every switch of two ports is a cable between two interfaces of it."""
    lab = make_lab()
    place = foreign(f"{lab.name}h")
    hosts = {server: Host(server, place) for server in SERVERS}
    hosts["s00"].run("ip", "link", "set", "lo", "up")
    for near, far in CABLES:
        hosts["s00"].run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        for end in (near, far):
            hosts["s00"].run("ip", "link", "set", end, "up")
    nodes = {
        server: {"host": "one", "ports": [{"interface": f"{server}p0"}, {"interface": f"{server}p1"}]}
        for server in SERVERS
    }
    lab.edit(nodes=nodes, link={"rate": "unlimited", "mtu": 4200})
    with ExitStack() as stack:
        stack.callback(hosts["s00"].hipsnet, "destroy", lab.name)
        yield lab, hosts


def drift(lab: Lab, host: Host) -> list[str]:
    done = host.hipsnet("inspect", lab.file, "--node", host.server, "--json")
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)["nodes"][0]["drift"]
    return found


def test_servers_share_a_host_and_leave_it_in_any_order(host: tuple[Lab, dict[str, Host]]) -> None:
    lab, hosts = host
    any_host = hosts["s00"]
    before = any_host.condition()
    for server in SERVERS:
        provision(lab, hosts[server])
    for server in SERVERS:
        assert provision(lab, hosts[server])["pending"] == []  # the earlier servers now have all MACs
    assert {server: drift(lab, hosts[server]) for server in SERVERS} == {server: [] for server in SERVERS}

    with inside(any_host.namespace):
        table = hosts_of.plan_host(*lab.load(), "s00").actual.table
    assert table is not None
    assert [row.prefix for row in table if row.port is not None and row.mac is None] == []

    identities = json.loads(any_host.run("ip", "-j", "addr", "show", "lo"))[0]["addr_info"]
    assert {f"10.255.0.{rank}" for rank in range(4)} <= {found["local"] for found in identities}
    # With an explicit interface the host uses the cable between two of its own addresses.
    sent = json.loads(any_host.run("ip", "-j", "-s", "link", "show", "s00p0"))[0]["stats64"]["tx"]["packets"]
    any_host.run("ping", "-c3", "-i0.05", "-W2", "-q", "-I", "s00p0", "10.0.0.2")
    link = json.loads(any_host.run("ip", "-j", "-s", "link", "show", "s00p0"))[0]
    assert link["stats64"]["tx"]["packets"] >= sent + 3

    assert hosts["s00"].hipsnet("destroy", lab.file, "--node", "s00").returncode == 0
    assert drift(lab, hosts["s11"]) == []
    ports = [f"{server}p{port}" for server in SERVERS for port in (0, 1)]
    forwarding = {
        name: any_host.run("sysctl", "-n", f"net.ipv4.conf.{name}.forwarding").strip() for name in ports
    }
    assert forwarding == {name: str(int(not name.startswith("s00"))) for name in ports}
    provision(lab, hosts["s00"])
    assert drift(lab, hosts["s00"]) == []
    for server in ("s10", "s00", "s11", "s01"):
        assert hosts[server].hipsnet("destroy", lab.file, "--node", server).returncode == 0
    assert any_host.condition() == before
