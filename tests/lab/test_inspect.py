# SPDX-License-Identifier: Apache-2.0
"""The reports of `hipsnet inspect` and `hipsnet ping` on a lab."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from hipsnet.node import namespace
from hipsnet.node.priorities import dscp_priorities, priority_differences, set_priorities
from hipsnet.stack.switch import counters
from orchestrator.lab import delay_line, soft_switch, state
from tests.lab.rig import BCUBE_3_2, Lab, run, traces

MakeLab = Callable[..., Lab]


def test_every_server_port_address_and_peer_is_reported(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_3_2, link={"rate": "500Mbit/s", "mtu": 4200})
    lab.provision()
    fabric = lab.load()[1]
    report = lab.inspect()
    assert (report["fabric"], report["kind"], report["dims"], report["drift"]) == (
        lab.name,
        "bcube",
        [3, 3],
        0,
    )
    reported = {node["name"]: node for node in report["nodes"]}
    assert reported.keys() == fabric.nodes.keys()
    for server in fabric.servers:
        assert reported[server.name]["identity"] == str(server.identity)
        assert reported[server.name]["ports"] == [
            {
                "name": port.name,
                "level": port.level,
                "address": str(port.address),
                "mac": port.mac,
                "peer": f"{fabric.peer(port).node}.{fabric.peer(port).name}",
                "state": "up",
                "mtu": 4200,
                "rate_bps": 500_000_000,
                "delay_us": 0,
                "loss_ppm": 0,
            }
            for port in server.ports
        ]
    shown = lab.run("inspect").stdout
    assert "kernel and file agree" in shown
    assert all(str(server.identity) in shown for server in fabric.servers)


def test_a_lab_that_is_not_provisioned_is_one_message_and_exit_code_1(make_lab: MakeLab) -> None:
    lab = make_lab()
    before = traces(lab.name)
    for command in ("inspect", "ping"):
        done = lab.run(command)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"hipsnet: {lab.name} is not provisioned" in done.stderr
    assert traces(lab.name) == before


def test_each_drift_between_file_and_kernel_is_reported(make_lab: MakeLab) -> None:
    lab = make_lab(link={"mtu": 9000})
    lab.provision()
    lab.ip("s00", "link", "set", "p0", "mtu", "1500")
    lab.ip("s00", "route", "del", "10.255.0.2/31")
    run("ip", "netns", "del", lab.namespace("l1g1"))
    report = lab.inspect()
    drift = {node["name"]: node["drift"] for node in report["nodes"] if node["drift"]}
    assert drift["s00"] == [
        "link p0 mtu: 1500 -> 9000",
        "route 10.255.0.2/31: via 10.1.0.2 p1, first window 111",
    ]
    states = {node["name"]: node["state"] for node in report["nodes"]}
    assert [name for name, how in states.items() if how != "present"] == ["l1g1"]
    shown = lab.run("inspect").stdout
    assert "drift: s00: link p0 mtu: 1500 -> 9000" in shown
    assert "drift: l1g1: missing" in shown


def test_another_map_of_dscps_is_drift_and_repaired(make_lab: MakeLab) -> None:
    lab = make_lab({"kind": "bcube", "n": 2, "levels": 1}, roce={"priority": 4, "dscp": 26})
    lab.provision()
    by_dscp = dscp_priorities(lab.load()[0])
    assert by_dscp[26] == 4
    set_priorities(lab.name, "s1", (*by_dscp[:26], 3, *by_dscp[27:]))
    (node,) = (node for node in lab.inspect()["nodes"] if node["drift"])
    assert node["name"] == "s1"
    assert node["drift"] == ["program forward on p0: port 0 gives DSCP 26 the priority 3, not 4 -> attached"]
    (change,) = lab.provision()
    assert (change["node"], change["aspect"], change["action"]) == ("s1", "program", "change")
    assert not list(priority_differences(lab.name, "s1", by_dscp))
    assert lab.inspect()["drift"] == 0
    lab.edit(roce={"priority": 5, "dscp": 26})
    assert {change["node"] for change in lab.provision()} == {"s0", "s1"}
    assert not list(priority_differences(lab.name, "s0", dscp_priorities(lab.load()[0])))


def test_surplus_nodes_and_an_edited_file_are_reported(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_3_2)
    lab.provision()
    lab.edit(fabric={"kind": "bcube", "n": 2, "levels": 2})
    report = lab.inspect()
    assert set(report["surplus"]) == {"s02", "s12", "s20", "s21", "s22", "l0g2", "l1g2"}
    assert report["drift"] > len(report["surplus"])


def test_ping_takes_every_disjoint_path(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_3_2)
    lab.provision()
    done = lab.run("ping")
    assert done.returncode == 0
    assert "72 ordered pairs of 9 servers, 144 paths: 144 reach their server" in done.stdout
    report = lab.ping()
    assert report["answered"] == report["paths"] == 144
    assert report["rtt_us"]["min"] <= report["rtt_us"]["median"] <= report["rtt_us"]["max"]


def test_a_fat_tree_of_routers_carries_every_pair(make_lab: MakeLab) -> None:
    lab = make_lab({"kind": "fattree", "servers": 4, "nics": 2}, link={"rate": "1Gbit/s"})
    lab.provision()
    assert lab.provision() == []
    report = lab.ping()
    assert report["reached"] == report["answered"] == report["paths"] == 12 * 2


def test_a_lost_state_folder_is_drift_that_provision_repairs_in_place(make_lab: MakeLab) -> None:
    lab = make_lab(link={"delay": "100us"}, pfc={"priorities": [3]}, lab={"switch": "lossless"})
    lab.provision()
    assert lab.run("inspect", "--exit-code").returncode == 0
    before, delaying = places(lab), delay_line.running(lab.name)
    (switch,) = soft_switch.running(lab.name)
    shutil.rmtree(state.folder(lab.name))
    report = lab.inspect()
    record = state.record_path(lab.name)
    assert report["record"] == [f"record {record}"]
    assert report["soft_switch"] == ["soft switch process: without its counters file -> for 4 switches"]
    assert report["drift"] == 2
    assert lab.run("inspect", "--exit-code").returncode == 3
    assert f"drift: record {record}" in lab.run("inspect").stdout
    assert lab.run("provision", "--dry-run", "--exit-code").returncode == 3
    assert {(change["aspect"], change["action"]) for change in lab.provision()} == {
        ("record", "add"),
        ("soft switch", "change"),
    }
    assert lab.inspect()["drift"] == 0
    assert places(lab) == before and delay_line.running(lab.name) == delaying
    (again,) = soft_switch.running(lab.name)
    assert again.digest == switch.digest and again.pid != switch.pid
    assert lab.run("ping").returncode == 0
    counted = counters.read(soft_switch.counters_path(lab.name))
    assert sum(int(found.ports["priority"]["rx_frames"].sum()) for found in counted.values()) > 0


def places(lab: Lab) -> dict[str, int]:
    """The inode number of each namespace of a lab; it changes if the namespace is made again."""
    names = (name for name in namespace.names() if name.startswith(f"{lab.name}-"))
    return {name: (namespace.NAMED / name).stat().st_ino for name in names}


def test_a_fabric_without_its_state_folder_is_destroyed_completely(make_lab: MakeLab) -> None:
    lab = make_lab(link={"delay": "100us"}, pfc={"priorities": [3]}, lab={"switch": "lossless"})
    untouched = traces(lab.name)
    lab.provision()
    shutil.rmtree(state.folder(lab.name))
    assert lab.run("destroy").returncode == 0
    assert traces(lab.name) == untouched
    assert soft_switch.running(lab.name) == () and delay_line.running(lab.name) == ()
