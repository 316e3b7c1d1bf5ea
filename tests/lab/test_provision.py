# SPDX-License-Identifier: Apache-2.0
"""Provisioning: plans, changes in place, repairs, and respect for what others have configured."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable

import pytest

from hipsnet.errors import ProvisionError
from hipsnet.node import bpf, pins
from hipsnet.node.namespace import NAMED, inside
from orchestrator.lab import state
from orchestrator.lab.locking import locked
from tests.lab.rig import BCUBE_2_2, BCUBE_3_2, REPOSITORY, Lab, command_line, run, traces

MakeLab = Callable[..., Lab]


def indexes(lab: Lab, node: str) -> dict[str, int]:
    """The ifindexes of a node; they change if its cables are made again."""
    return {link["ifname"]: link["ifindex"] for link in json.loads(lab.ip(node, "-j", "link"))}


def rates(lab: Lab, node: str) -> list[str]:
    """The rates of the classes on a node's ports."""
    shown = [run("tc", "-n", lab.namespace(node), "class", "show", "dev", f"p{port}") for port in (0, 1)]
    return [match.group(1) for text in shown for match in re.finditer(r"rate (\S+)", text)]


def test_a_dry_run_prints_the_plan_and_changes_nothing(make_lab: MakeLab) -> None:
    lab = make_lab()
    before = traces(lab.name)
    done = lab.run("provision", "--dry-run", "--exit-code")
    assert done.returncode == 3
    assert f"+ s00: namespace {lab.name}-s00" in done.stdout
    assert f"+ l1g1: namespace {lab.name}-l1g1" in done.stdout
    assert traces(lab.name) == before


def test_a_second_run_changes_nothing_and_reports_it(make_lab: MakeLab) -> None:
    lab = make_lab()
    planned = json.loads(lab.run("provision", "--dry-run", "--json").stdout)
    assert planned["dry_run"]
    done = lab.provision()
    assert Counter(change["aspect"] for change in done) == Counter(c["aspect"] for c in planned["changes"])
    assert sum(change["aspect"] == "cable" for change in done) == 8
    assert lab.provision() == []
    again = lab.run("provision")
    assert again.returncode == 0
    assert "nothing to change" in again.stdout
    assert lab.run("provision", "--dry-run", "--exit-code").returncode == 0


def test_the_summary_counts_what_was_added(make_lab: MakeLab) -> None:
    done = make_lab().run("provision")
    assert done.returncode == 0
    assert re.search(r"namespaces\s*│\s*8\b", done.stdout)
    assert re.search(r"XDP programs\s*│\s*4\b", done.stdout)


def test_bad_input_is_exit_code_2_and_changes_nothing(make_lab: MakeLab) -> None:
    lab = make_lab()
    before = traces(lab.name)
    assert lab.run("provision", "--exit-code").returncode == 2
    assert lab.run("provision", "--node", "s00").returncode == 2
    lab.edit(link={"rate": "fast"})
    done = lab.run("provision", "--dry-run", "--exit-code")
    assert (done.returncode, done.stdout) == (2, "")
    assert traces(lab.name) == before


def test_rate_and_mtu_change_in_place(make_lab: MakeLab) -> None:
    lab = make_lab(link={"rate": "500Mbit/s", "mtu": 9000})
    lab.provision()
    assert rates(lab, "s00") == rates(lab, "l0g0") == ["500Mbit", "500Mbit"]
    before = {node: indexes(lab, node) for node in ("s00", "l0g0")}
    lab.edit(link={"rate": "1.5Gbit/s", "mtu": 1500})
    assert {change["aspect"] for change in lab.provision()} == {"rate", "link", "route", "sysctl"}
    assert rates(lab, "s00") == rates(lab, "l0g0") == ["1500Mbit", "1500Mbit"]
    assert {link["mtu"] for link in json.loads(lab.ip("l0g0", "-j", "link")) if link["ifname"] != "lo"} == {
        1500
    }
    lab.edit(link={"rate": "unlimited", "mtu": 1500})
    assert {(change["aspect"], change["after"]) for change in lab.provision()} == {
        ("rate", "unlimited"),
        ("sysctl", str(4 << 20)),
        ("sysctl", str(2**32 - 1)),
    }
    assert rates(lab, "s00") == []
    lab.edit(link={"rate": "100Gbit/s", "mtu": 1500})
    lab.provision()
    assert rates(lab, "s00") == ["100Gbit", "100Gbit"]
    assert lab.provision() == []
    assert {node: indexes(lab, node) for node in ("s00", "l0g0")} == before


def test_a_fabric_grows_shrinks_and_is_changed_into_another(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_2_2)
    lab.provision()
    for fabric, servers in ((BCUBE_3_2, 9), ({"kind": "torus", "dims": [3, 3]}, 9), (BCUBE_2_2, 4)):
        lab.edit(fabric=fabric)
        lab.provision()
        assert lab.provision() == []
        report = lab.inspect()
        assert report["drift"] == 0
        assert sum(node["kind"] == "server" for node in report["nodes"]) == servers
        assert len(traces(lab.name).namespaces) == len(report["nodes"])
        named = {node["name"] for node in report["nodes"] if node["kind"] == "server"}
        assert set(pins.pinned_nodes(lab.name)) == named
        pinged = lab.ping()
        assert pinged["reached"] == pinged["answered"] == pinged["paths"] > 0


def test_what_others_removed_is_made_again(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.provision()
    run("ip", "netns", "del", lab.namespace("s01"))
    lab.ip("s10", "link", "del", "p1")
    lab.ip("s00", "link", "set", "p0", "xdp", "off")
    lab.ip("s00", "link", "set", "p1", "down", "mtu", "1400")
    lab.ip("s11", "route", "flush", "proto", "72")
    lab.ip("s11", "neigh", "flush", "nud", "permanent", "dev", "p0")
    lab.ip("s11", "addr", "flush", "dev", "p1")
    run("tc", "-n", lab.namespace("l0g0"), "qdisc", "del", "dev", "p0", "root")
    run("ip", "netns", "exec", lab.namespace("s11"), "sysctl", "-qw", "net.ipv4.conf.p0.arp_ignore=0")
    (pins.node_folder(lab.name, "s11") / "ports").unlink()
    repaired = Counter((change["node"], change["aspect"]) for change in lab.provision())
    assert repaired["s01", "namespace"] == 1
    assert repaired["s10", "cable"] == 1
    assert repaired["s00", "program"] == 1
    assert repaired["s11", "sysctl"] == 1
    assert repaired["s11", "program"] == 1
    assert lab.provision() == []
    assert lab.inspect()["drift"] == 0
    assert lab.ping()["reached"] == 12 * 2


def test_what_others_put_on_our_nodes_stays(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.provision()
    lab.ip("s00", "addr", "add", "192.0.2.1/24", "dev", "p0")
    lab.ip("s00", "route", "add", "198.51.100.0/24", "via", "192.0.2.2")
    lab.ip("s00", "neigh", "add", "192.0.2.2", "lladdr", "02:00:00:00:00:01", "dev", "p0")
    lab.ip("s00", "link", "add", "mine", "type", "bridge")
    assert lab.provision() == []
    lab.edit(fabric=BCUBE_3_2)
    lab.provision()
    assert "192.0.2.1/24" in lab.ip("s00", "addr")
    assert "198.51.100.0/24 via 192.0.2.2" in lab.ip("s00", "route")
    assert "02:00:00:00:00:01 PERMANENT" in lab.ip("s00", "neigh")
    assert "mine" in indexes(lab, "s00")


def test_a_foreign_namespace_is_named_and_not_touched(
    make_lab: MakeLab, foreign: Callable[[str], str]
) -> None:
    lab = make_lab()
    foreign(lab.namespace("s01"))
    lab.ip("s01", "link", "add", "p0", "type", "bridge")
    before = lab.ip("s01", "addr"), traces(lab.name)
    done = lab.run("provision")
    assert done.returncode == 1
    assert lab.namespace("s01") in done.stderr
    assert (lab.ip("s01", "addr"), traces(lab.name)) == before
    run("ip", "netns", "del", lab.namespace("s01"))
    lab.provision()
    run("ip", "netns", "del", lab.namespace("s01"))
    foreign(lab.namespace("s01"))
    removed = lab.run("destroy")
    assert removed.returncode == 0
    assert lab.namespace("s01") in removed.stdout
    assert traces(lab.name).namespaces == (lab.namespace("s01"),)


def test_a_foreign_link_is_named_and_not_touched(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.provision()
    lab.ip("s01", "link", "del", "p0")
    lab.ip("s01", "link", "add", "p0", "type", "bridge")
    before = lab.ip("s01", "link"), lab.ip("l0g0", "link")
    done = lab.run("provision")
    assert done.returncode == 1
    assert "s01: hipsnet did not create the interface p0 (bridge" in done.stderr
    assert (lab.ip("s01", "link"), lab.ip("l0g0", "link")) == before
    lab.ip("s01", "link", "del", "p0")
    lab.provision()
    assert lab.inspect()["drift"] == 0


def test_a_foreign_route_in_the_way_is_named_and_not_touched(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.provision()
    lab.ip("s00", "route", "del", "10.255.0.1/32")
    lab.ip("s00", "route", "add", "10.255.0.1/32", "via", "10.1.0.2")
    done = lab.run("provision")
    assert done.returncode == 1
    assert "10.255.0.1/32" in done.stderr
    assert "10.255.0.1 via 10.1.0.2 dev p1" in lab.ip("s00", "route")


def test_an_empty_file_in_the_place_of_a_namespace_is_foreign_unless_it_is_recorded(
    make_lab: MakeLab,
) -> None:
    lab = make_lab()
    NAMED.mkdir(exist_ok=True)
    (NAMED / lab.namespace("s00")).touch()
    done = lab.run("provision")
    assert done.returncode == 1
    assert lab.namespace("s00") in done.stderr
    (NAMED / lab.namespace("s00")).unlink()
    lab.provision()
    run("umount", str(NAMED / lab.namespace("s00")))
    lab.provision()
    assert lab.inspect()["drift"] == 0


def test_two_provisions_at_once_leave_one_whole_lab(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_3_2)
    command = command_line("provision", lab.file, "--json")
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    changed = [bool(json.loads(output)["changes"]) for output, _ in outputs]
    assert sorted(changed) == [False, True]
    assert lab.inspect()["drift"] == 0


def test_a_provision_that_waited_too_long_is_refused(make_lab: MakeLab) -> None:
    lab = make_lab()
    with locked(lab.name):
        begun = time.monotonic()
        with pytest.raises(ProvisionError, match="another hipsnet command"), locked(lab.name, wait_s=0.2):
            pass
        assert time.monotonic() - begun >= 0.2
    assert not state.folder(lab.name).exists()


def test_two_fabrics_live_side_by_side(make_lab: MakeLab) -> None:
    first, second = make_lab(), make_lab({"kind": "torus", "dims": [3]})
    first.provision()
    second.provision()
    assert first.provision() == second.provision() == []
    assert first.ping()["reached"] == 24
    assert first.run("destroy").returncode == 0
    assert second.inspect()["drift"] == 0
    assert second.ping()["reached"] == second.ping()["paths"]


def test_the_smallest_fattree_is_provisioned(make_lab: MakeLab) -> None:
    lab = make_lab({"kind": "fattree", "servers": 2})  # k = 2: a pod's prefix is that of one cable
    lab.provision()
    assert lab.provision() == []
    assert lab.ping()["reached"] == 2


def test_a_foreign_program_is_named_and_nothing_is_changed(make_lab: MakeLab) -> None:
    lab = make_lab(link={"mtu": 9000})
    lab.provision()
    lab.ip("s01", "link", "set", "p0", "xdp", "off")
    pass_on = struct.pack("<BBhi", 0xB7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0)  # return XDP_PASS
    with inside(lab.namespace("s01")), bpf.closing(bpf.load_xdp("theirs", pass_on)) as program:
        bpf.attach(indexes(lab, "s01")["p0"], program)
    lab.edit(link={"mtu": 1500})
    done = lab.run("provision")
    assert done.returncode == 1
    assert "s01: p0 has the XDP program 'theirs'" in done.stderr
    assert {link["mtu"] for link in json.loads(lab.ip("s00", "-j", "link")) if link["ifname"] != "lo"} == {
        9000
    }
    lab.ip("s01", "link", "set", "p0", "xdp", "off")
    lab.provision()
    assert lab.inspect()["drift"] == 0
