# SPDX-License-Identifier: Apache-2.0
"""A server provisioned on its host and removed again; namespaces of the test play the hosts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hipsnet.node import bpf, pins
from hipsnet.node.namespace import inside
from orchestrator.lab import state
from tests.lab.rig import Done, Lab, hipsnet, run

MakeLab = Callable[..., Lab]


@dataclass(frozen=True)
class Host:
    """A namespace of the test, with veths as NICs."""

    server: str
    namespace: str

    def hipsnet(self, *arguments: object) -> Done:
        """Run the command on this host."""
        with inside(self.namespace):
            return hipsnet(*arguments)

    def run(self, *command: str) -> str:
        """Run another program on this host."""
        return run("ip", "netns", "exec", self.namespace, *command)

    def condition(self) -> dict[str, Any]:
        """Everything that provisioning can change, as other programs print it."""
        cards = [link["ifname"] for link in json.loads(self.run("ip", "-j", "link"))]
        links = json.loads(self.run("ip", "-j", "-d", "addr"))
        for link in links:
            for key in ("operstate", "flags"):
                link.pop(key)
            link["addr_info"] = [found for found in link["addr_info"] if found["family"] == "inet"]
        return {
            "links": links,
            "up": {
                link["ifname"]: "UP" in link["flags"] for link in json.loads(self.run("ip", "-j", "link"))
            },
            "routes": self.run("ip", "route"),
            "permanent": self.run("ip", "neigh", "show", "nud", "permanent"),
            "queues": self.run("tc", "qdisc"),
            "offloads": {card: self.run("ethtool", "-k", card) for card in cards},
            "settings": self.run("sysctl", "-a", "-r", r"^net\.(ipv4\.conf|ipv4\.ip_forward|ipv6\.conf)"),
        }


@pytest.fixture
def hosts(make_lab: MakeLab, foreign: Callable[[str], str]) -> Iterator[tuple[Lab, list[Host]]]:
    """Three hosts on one switch: BCube(3,1), each with a NIC `eth1` and settings of its own."""
    lab = make_lab({"kind": "bcube", "n": 3, "levels": 1})
    switch = foreign(f"{lab.name}h-sw")
    run("ip", "-n", switch, "link", "add", "name", "sw0", "type", "bridge")
    run("ip", "-n", switch, "link", "set", "sw0", "up")
    found = []
    for number in range(3):
        host = Host(f"s{number}", foreign(f"{lab.name}h-{number}"))
        peer = ("peer", "name", f"e{number}", "mtu", "9000", "netns", switch)
        host.run("ip", "link", "add", "eth1", "mtu", "1600", "type", "veth", *peer)
        run("ip", "-n", switch, "link", "set", f"e{number}", "master", "sw0", "up")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "link", "set", "eth1", "up")
        host.run("ip", "addr", "add", f"192.0.2.{number + 1}/24", "dev", "eth1")
        found.append(host)
    found[0].run("ip", "link", "set", "eth1", "alias", "front panel 1")
    found[1].run("ip", "link", "set", "eth1", "down")
    found[0].run("sysctl", "-qw", "net.ipv4.conf.eth1.rp_filter=1")
    nodes = {host.server: {"host": host.namespace, "ports": [{"interface": "eth1"}]} for host in found}
    lab.edit(nodes=nodes, link={"rate": "10Gbit/s", "mtu": 9000})
    with ExitStack() as stack:
        for host in found:
            stack.callback(host.hipsnet, "destroy", lab.name)
        yield lab, found


def provision(lab: Lab, host: Host) -> dict[str, Any]:
    done = host.hipsnet("provision", lab.file, "--node", host.server, "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_lost_record_of_a_host_is_drift_and_written_anew(hosts: tuple[Lab, list[Host]]) -> None:
    lab, (first, _, _) = hosts
    provision(lab, first)
    shutil.rmtree(state.folder(lab.name))
    done = first.hipsnet("inspect", lab.file, "--node", "s0", "--json", "--exit-code")
    (lost,) = json.loads(done.stdout)["record"]
    assert lost.endswith("s0.json: the host's earlier state is lost") and done.returncode == 3
    assert [change["aspect"] for change in provision(lab, first)["changes"]] == ["record"]
    assert first.hipsnet("inspect", lab.file, "--node", "s0", "--exit-code").returncode == 0
    assert first.hipsnet("destroy", lab.file, "--node", "s0").returncode == 0
    assert pins.pinned_nodes(lab.name) == ()


def test_a_host_is_planned_applied_inspected_and_brought_back(hosts: tuple[Lab, list[Host]]) -> None:
    lab, (first, second, third) = hosts
    before = [host.condition() for host in (first, second, third)]
    planned = first.hipsnet("provision", lab.file, "--node", "s0", "--dry-run", "--exit-code")
    assert planned.returncode == 3
    assert "~ s0: link eth1 mtu: 1600 -> 9000" in planned.stdout
    assert first.condition() == before[0]

    assert provision(lab, first)["pending"] == ["10.0.0.2 on eth1", "10.0.0.3 on eth1"]
    provision(lab, second)
    assert provision(lab, third)["pending"] == []
    completed = provision(lab, first)
    assert completed["pending"] == []
    assert {change["aspect"] for change in completed["changes"]} == {"neighbour", "table"}
    assert provision(lab, first)["changes"] == []

    for source in (first, second, third):
        for target in (1, 2, 3):
            source.run("ping", "-c1", "-W2", "-q", f"10.0.0.{target}")
    with inside(first.namespace):
        attached = bpf.attached(json.loads(first.run("ip", "-j", "link", "show", "eth1"))[0]["ifindex"])
    assert attached is not None and attached.native

    report = json.loads(first.hipsnet("inspect", lab.file, "--node", "s0", "--json").stdout)
    assert (report["drift"], [port["name"] for port in report["nodes"][0]["ports"]]) == (0, ["eth1"])
    first.run("ip", "link", "set", "eth1", "mtu", "2000")
    report = json.loads(first.hipsnet("inspect", lab.file, "--node", "s0", "--json").stdout)
    assert report["nodes"][0]["drift"] == ["link eth1 mtu: 2000 -> 9000"]

    for host, condition in zip((first, second, third), before, strict=True):
        assert host.hipsnet("destroy", lab.file, "--node", host.server).returncode == 0
        assert host.condition() == condition
    assert not state.folder(lab.name).exists()
    assert lab.name not in pins.pinned_fabrics()


def in_echos(host: Host) -> int:
    return int(host.run("nstat", "-asz", "IcmpInEchos").split()[-2])


def test_only_the_ports_forward_and_filter_loosely(hosts: tuple[Lab, list[Host]]) -> None:
    """Even if `all` is strict, replies may arrive on another port; other interfaces do not forward."""
    lab, (first, second, _) = hosts
    for host in (first, second):
        host.run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
        host.run("ip", "link", "add", "other", "up", "type", "bridge")
    before = first.condition()["settings"]
    provision(lab, second)
    provision(lab, first)  # both have resolved each other's MAC by now
    settings = {
        f"{name}.{key}": first.run("sysctl", "-n", f"net.ipv4.conf.{name}.{key}").strip()
        for name in ("all", "default", "other", "eth1")
        for key in ("forwarding", "rp_filter")
    }
    assert settings == {
        "all.forwarding": "0", "default.forwarding": "0", "other.forwarding": "0", "eth1.forwarding": "1",
        "all.rp_filter": "1", "default.rp_filter": "0", "other.rp_filter": "0", "eth1.rp_filter": "2",
    }  # fmt: skip
    assert first.run("sysctl", "-n", "net.ipv4.ip_forward").strip() == "0"
    # The reply leaves by another interface: a strict filter would drop the request.
    first.run("ip", "rule", "add", "to", "10.255.0.1", "lookup", "99")
    first.run("ip", "route", "add", "10.255.0.1", "dev", "other", "table", "99")
    echos = in_echos(first)
    second.run("sh", "-c", "! ping -c1 -W1 -q -I 10.255.0.1 10.255.0.0")
    assert in_echos(first) == echos + 1
    first.run("ip", "rule", "del", "to", "10.255.0.1", "lookup", "99")
    first.run("ip", "route", "flush", "table", "99")
    assert first.hipsnet("destroy", lab.file, "--node", "s0").returncode == 0
    assert first.condition()["settings"] == before


@pytest.mark.parametrize("key", ["kernel/printk_ratelimit_burst", "net/../kernel/printk_ratelimit_burst"])
def test_a_record_changes_no_other_settings(hosts: tuple[Lab, list[Host]], key: str) -> None:
    lab, (first, *_) = hosts
    provision(lab, first)
    victim = Path("/proc/sys/kernel/printk_ratelimit_burst")
    was = victim.read_text()
    record = state.folder(lab.name) / "hosts/s0.json"
    whole = record.read_text()
    content = json.loads(whole)
    content["sysctls"][key] = str(int(was) + 1)
    before = first.condition()
    try:
        for damaged in (json.dumps(content), "{", '{"namespace": 1}', "[]"):
            record.write_text(damaged)
            done = first.hipsnet("destroy", lab.file, "--node", "s0")
            assert done.returncode == 1 and "Traceback" not in done.stderr
            assert f"{record} is not a valid record of hipsnet" in done.stderr
        listed = first.hipsnet("list")
        assert listed.returncode == 0 and f"{lab.name}: {record} is not a valid record" in listed.stdout
        assert victim.read_text() == was
        assert first.condition() == before
    finally:
        victim.write_text(was)
        record.write_text(whole)


def test_a_lost_file_and_a_removed_card_do_not_prevent_a_restore(hosts: tuple[Lab, list[Host]]) -> None:
    lab, (first, *_) = hosts
    before = first.condition()
    provision(lab, first)
    lab.file.unlink()
    assert first.hipsnet("destroy", lab.name).returncode == 0
    assert first.condition() == before

    lab.edit()
    provision(lab, first)
    first.run("ip", "link", "del", "eth1")
    done = first.hipsnet("destroy", lab.name)
    assert done.returncode == 0, done.stderr
    assert first.run("ip", "-br", "addr", "show", "lo").split()[2:] in ([], ["127.0.0.1/8", "::1/128"])


def test_missing_hardware_is_named_and_nothing_changed(hosts: tuple[Lab, list[Host]]) -> None:
    lab, (first, *_) = hosts
    before = first.condition()
    nodes = lab.content["nodes"]
    for node, ports, words in (
        ("s0", [{"interface": "eth7"}], ["eth7", "eth1"]),
        ("s0", [{"interface": "eth1", "mac": "02:00:00:00:00:99"}], ["02:00:00:00:00:99"]),
        ("s7", [{"interface": "eth1"}], ["s7"]),
    ):
        lab.edit(nodes=nodes | {"s0": {"ports": ports}})
        done = first.hipsnet("provision", lab.file, "--node", node)
        assert done.returncode == 2
        assert all(word in done.stderr for word in words), done.stderr
    done = first.hipsnet("provision", lab.file)
    assert (done.returncode, "--node" in done.stderr) == (2, True)
    assert first.condition() == before
    assert not state.folder(lab.name).exists()


def test_a_host_is_not_restored_from_another_namespace(hosts: tuple[Lab, list[Host]]) -> None:
    lab, (first, second, _) = hosts
    provision(lab, first)
    applied = first.condition()
    done = second.hipsnet("destroy", lab.name)
    assert "to be destroyed in its own namespace: s0" in done.stdout
    assert first.condition() == applied
    second.run("ip", "link", "set", "eth1", "up")
    done = second.hipsnet("provision", lab.file, "--node", "s0")
    assert done.returncode == 1
    assert "another network namespace" in done.stderr
    assert first.condition() == applied
