# SPDX-License-Identifier: Apache-2.0
"""Soft switches: started and stopped with their fabric, transparent as a bridge, and lossless."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hipsnet.node.namespace import inside
from hipsnet.node.priorities import CNP_PRIORITY
from hipsnet.stack.switch import counters
from hipsnet.stack.switch.counters import SwitchCounters
from hipsnet.topology import Fabric, Topology
from orchestrator.lab import processes, soft_switch
from orchestrator.pfc import traffic
from orchestrator.pfc.traffic import Flow
from orchestrator.provision import removal
from tests.lab.rig import BCUBE_2_2, Lab, hipsnet, run, traces
from tests.lab.starving import busy_processors, stopped_now_and_then
from tests.lab.test_delay import address, receiver, sender
from tests.lab.test_kill import killed_after, points
from tools.benchmarks.pfc_spread import PAUSED, measure

MakeLab = Callable[..., Lab]

LOSSLESS = {"switch": "lossless"}
PFC = {"priorities": [3]}
PRIORITY = 3
GROUP_OF_9 = {"kind": "bcube", "n": 9, "levels": 1}
GROUP_OF_2 = {"kind": "bcube", "n": 2, "levels": 1}
TREE = {"kind": "fattree", "servers": 4, "nics": 1}


def the_process(lab: Lab) -> soft_switch.Running:
    (found,) = soft_switch.running(lab.name)
    return found


def read(lab: Lab) -> dict[str, SwitchCounters]:
    """Read the counters after the switches have updated them."""
    time.sleep(0.25)
    return counters.read(soft_switch.counters_path(lab.name))


def reach(lab: Lab) -> bool:
    done = lab.run("ping")
    return done.returncode == 0


def incast(lab: Lab, seconds: float) -> tuple[traffic.Result, Topology, Fabric]:
    """All servers of a group send to the first."""
    topology, fabric = lab.load()
    first, *others = (server.ports[0] for server in fabric.servers)
    result = traffic.run(topology, fabric, [Flow(port, first) for port in others], seconds)
    return result, topology, fabric


def test_a_lossless_fabric_is_provisioned_and_a_second_run_changes_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_2_2, lab=LOSSLESS, pfc=PFC)
    clean = traces(lab.name)
    changes = lab.provision()
    assert [change["node"] for change in changes if change["aspect"] == "soft switch"] == [lab.name]
    process = the_process(lab)
    assert reach(lab)
    assert (lab.provision(), lab.inspect()["drift"]) == ([], 0)
    assert the_process(lab) == process
    found = read(lab)
    assert set(found) == {"l0g0", "l0g1", "l1g0", "l1g1"}
    assert all(switch.dropped == {} and switch.totals["ports"] == 2 for switch in found.values())
    assert all((switch.ports["priority"]["rx_frames"][:, 0] > 0).all() for switch in found.values())
    assert hipsnet("destroy", lab.name).returncode == 0
    assert (traces(lab.name), soft_switch.running(lab.name)) == (clean, ())


def test_a_dead_soft_switch_is_replaced(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_2, lab=LOSSLESS)
    lab.provision()
    before = the_process(lab)
    assert processes.end([before.pid]) == ()
    report = lab.inspect()
    assert (report["drift"], report["soft_switch"]) == (
        1, ["soft switch process: not running -> for 1 switches"],
    )  # fmt: skip
    assert not reach(lab)
    assert lab.run("provision", "--dry-run", "--exit-code").returncode == 3
    assert [(change["aspect"], change["action"]) for change in lab.provision()] == [("soft switch", "change")]
    assert reach(lab)
    after = the_process(lab)
    assert after.pid != before.pid and after.digest == before.digest


def test_an_edit_restarts_the_soft_switch_and_changes_nothing_else(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_2, lab=LOSSLESS)
    lab.provision()
    lab.edit(lab={**LOSSLESS, "buffer": "1MiB", "scheduling": "weighted"}, pfc={**PFC, "xoff": "64KiB"})
    assert [change["aspect"] for change in lab.provision()] == ["soft switch"]
    assert read(lab)["l0g0"].totals["shared_size"] == 1 << 20
    assert reach(lab)


@pytest.mark.parametrize("fabric", [GROUP_OF_2, TREE])
def test_switches_change_to_soft_switches_and_back(make_lab: MakeLab, fabric: dict[str, Any]) -> None:
    lab = make_lab(fabric)
    lab.provision()
    for kind in (LOSSLESS, {}):
        lab.edit(lab=kind)
        lab.provision()
        assert reach(lab), kind
        assert lab.inspect()["drift"] == 0
        assert len(soft_switch.running(lab.name)) == (1 if kind else 0)


def stop(lab: Lab) -> None:
    os.kill(the_process(lab).pid, signal.SIGSTOP)


def unname(lab: Lab) -> None:
    run("ip", "netns", "del", lab.namespace("l0g0"))


@pytest.mark.parametrize("harm", [stop, unname])
def test_a_destroy_leaves_nothing_of_it(make_lab: MakeLab, harm: Callable[[Lab], Any]) -> None:
    lab = make_lab(GROUP_OF_2, lab=LOSSLESS)
    clean = traces(lab.name)
    lab.provision()
    harm(lab)
    assert hipsnet("destroy", lab.name).returncode == 0
    assert (traces(lab.name), soft_switch.running(lab.name)) == (clean, ())


def test_the_next_command_finds_the_soft_switch_of_a_killed_one(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_2, lab=LOSSLESS)
    clean = traces(lab.name)
    total = killed_after(None, "provision", lab.file)
    for point in points(total)[-6:]:
        hipsnet("destroy", lab.name)
        assert (traces(lab.name), soft_switch.running(lab.name)) == (clean, ())
        killed_after(point, "provision", lab.file)
        lab.provision()
        assert len(soft_switch.running(lab.name)) == 1
        assert (lab.provision(), lab.inspect()["drift"]) == ([], 0)


def test_a_deleted_node_rejoins_the_soft_switch(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_2, lab=LOSSLESS)
    lab.provision()
    for node in ("s1", "l0g0"):
        run("ip", "netns", "del", lab.namespace(node))
        lab.provision()
        assert reach(lab), node
        assert (lab.provision(), lab.inspect()["drift"]) == ([], 0)


def test_udp_and_tcp_of_the_kernel_arrive_whole(make_lab: MakeLab) -> None:
    """Datagrams of every size up to the MTU, fragments beyond it, and TCP through a forwarding server."""
    lab = make_lab(BCUBE_2_2, lab=LOSSLESS, link={"rate": "1Gbit/s"})
    lab.provision()
    with receiver(lab, "s01") as there, sender(lab, "s00") as here:
        for size in (0, 1, 18, 3700, 3798, 3799, 7638, 7639, 8972, 20_000):
            content = os.urandom(size)
            here.sendto(content, (address(lab, "s01"), 4792))
            here.sendto(content, (address(lab, "s01"), there.getsockname()[1]))
            assert there.recv(1 << 16) == content
    content, received = os.urandom(1 << 23), bytearray()

    def receive(listening: Any) -> None:
        connection, _ = listening.accept()
        with connection:
            while part := connection.recv(1 << 20):
                received.extend(part)

    with inside(lab.namespace("s11")), socket.create_server(("", 4793)) as listening:
        thread = threading.Thread(target=receive, args=(listening,))
        thread.start()
        with inside(lab.namespace("s00")), socket.create_connection((address(lab, "s11"), 4793)) as here:
            here.sendall(content)
        thread.join(30)
    assert bytes(received) == content


def test_a_job_is_right_over_soft_switches(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_2_2, lab=LOSSLESS, pfc=PFC)
    lab.provision()
    done = lab.run("run", "--algorithm", "hips", "--sizes", "1KiB:1MiB:x32", "--iters", "2", "--check")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line and not line.startswith("#")]
    assert [row[0] for row in rows] == ["1024", "32768", "1048576"]
    assert {row[4] for row in rows} == {"0"}


@pytest.mark.parametrize("pfc", [PFC, None])
def test_a_roce_job_is_right_whether_its_incast_is_stopped_or_lost(
    make_lab: MakeLab, pfc: dict[str, Any] | None
) -> None:
    sections = {"pfc": pfc} if pfc else {}
    group = {"kind": "bcube", "n": 3, "levels": 1}
    lab = make_lab(group, lab={**LOSSLESS, "buffer": "64KiB"}, link={"rate": "100Mbit/s"}, **sections)
    lab.provision()
    options = ("--algorithm", "ps", "--servers", "1", "--size", "512KiB", "--iters", "1", "--warmup", "1")
    done = lab.run("run", "--transport", "xdp", *options, "--check", "--json", "-")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["wrong"] == 0
    switch = read(lab)["l0g0"]
    pauses = switch.ports["pause"]["tx_pause_frames"][:, PRIORITY].sum()
    if pfc:
        assert (switch.dropped, pauses > 0) == ({}, True)
    else:
        assert (set(switch.dropped), pauses) == ({"drop_tail"}, 0)  # and go-back-N has retransmitted them


def test_delays_and_losses_of_cables_hold(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_2, lab=LOSSLESS, link={"delay": "10ms"})
    lab.provision()
    printed = run("ip", "netns", "exec", lab.namespace("s0"), "ping", "-c3", "-i0.02", address(lab, "s1"))
    times = [float(line.partition("time=")[2].split()[0]) for line in printed.splitlines() if "time=" in line]
    assert len(times) == 3 and min(times) >= 40
    assert lab.run("impair", "s1.p0", "--loss", "100%").returncode == 0
    assert not reach(lab)
    assert lab.run("impair", "s1.p0", "--reset").returncode == 0
    assert reach(lab)


def test_an_impaired_rate_holds_for_the_switch_as_well(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_2, lab=LOSSLESS, pfc=PFC, link={"rate": "100Mbit/s"})
    lab.provision()
    topology, fabric = lab.load()
    source, target = ports = [server.ports[0] for server in fabric.servers]
    assert lab.run("impair", "s1.p0", "--rate", "20Mbit/s").returncode == 0
    result = traffic.run(topology, fabric, [Flow(source, target)], 1.0)
    assert [flow.lost for flow in result.flows] == [0]
    assert 0.9 * 20e6 < result.goodput_bps < 1.1 * 20e6
    assert result.of(ports[0]).pause_frames[PRIORITY] > 0
    changes = lab.provision()
    assert {change["aspect"] for change in changes} >= {"rate"}
    assert traffic.run(topology, fabric, [Flow(source, target)], 1.0).goodput_bps > 50e6
    assert (lab.provision(), lab.inspect()["drift"]) == ([], 0)


def test_a_cable_that_is_down_blocks_no_other_port(make_lab: MakeLab) -> None:
    lab = make_lab({"kind": "bcube", "n": 3, "levels": 1}, lab=LOSSLESS, pfc=PFC, link={"rate": "100Mbit/s"})
    lab.provision()
    topology, fabric = lab.load()
    source, cut, other = (server.ports[0] for server in fabric.servers)
    assert lab.run("impair", "s1.p0", "--down").returncode == 0
    result = traffic.run(topology, fabric, [Flow(source, cut), Flow(source, other)], 1.0)
    assert (result.flows[0].received, result.flows[1].lost) == (0, 0)
    assert result.of(source).pause_frames[PRIORITY] == 0
    assert set(read(lab)["l0g0"].dropped) == {"drop_down"}
    assert lab.run("impair", "s1.p0", "--up").returncode == 0
    assert reach(lab)
    result = traffic.run(topology, fabric, [Flow(source, cut)], 0.5)
    assert result.flows[0].lost == 0


def test_a_tree_spreads_flows_over_equal_paths(make_lab: MakeLab) -> None:
    lab = make_lab(TREE, lab=LOSSLESS, pfc=PFC, link={"rate": "50Mbit/s"})
    lab.provision()
    assert reach(lab)
    topology, fabric = lab.load()
    flows = [Flow(fabric.servers[0].ports[0], fabric.servers[3].ports[0]) for _ in range(16)]
    result = traffic.run(topology, fabric, flows, 0.5)
    assert sum(flow.lost for flow in result.flows) == sum(flow.late for flow in result.flows) == 0
    (edge,) = [fabric.peer(fabric.servers[0].ports[0]).node]
    up = [port.index for port in fabric.nodes[edge].ports if port.level == 1]
    assert (read(lab)[edge].ports["priority"]["tx_frames"][up, PRIORITY] > 0).all()


def test_an_incast_loses_nothing_and_stops_the_senders(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_9, lab=LOSSLESS, pfc=PFC, link={"rate": "100Mbit/s"})
    lab.provision()
    result, _, fabric = incast(lab, 3)
    assert [flow.lost for flow in result.flows] == [0] * 8
    assert [flow.late for flow in result.flows] == [0] * 8
    for server in fabric.servers[1:]:
        seen = result.of(server.ports[0])
        assert seen.pause_frames[PRIORITY] > 0 and seen.pause_us[PRIORITY] > 0
    switch = read(lab)["l0g0"]
    assert switch.dropped == {}
    assert (switch.ports["pause"]["tx_pause_us"][1:, PRIORITY] > 1_000_000).all()
    assert switch.ports["priority"]["ecn_marks"][0, PRIORITY] > 0
    assert switch.totals["shared_bytes"] == switch.totals["headroom_bytes"] == 0
    assert result.goodput_bps > 0.8e8  # tools/bench switch requires 95 % on an idle machine


def test_a_switch_without_cpu_time_loses_nothing(make_lab: MakeLab) -> None:
    """Arrivals meanwhile exceed buffer and headroom; they stay in the kernel's queue."""
    lab = make_lab(GROUP_OF_2, lab={**LOSSLESS, "buffer": "64KiB"}, pfc=PFC, link={"rate": "100Mbit/s"})
    lab.provision()
    topology, fabric = lab.load()
    process = the_process(lab)
    with stopped_now_and_then(lambda: [process.pid], 0.04, 0.05) as stopped:
        flow = Flow(fabric.servers[0].ports[0], fabric.servers[1].ports[0])
        (found,) = traffic.run(topology, fabric, [flow], 2).flows
    switch = read(lab)["l0g0"]
    assert len(stopped) > 3
    assert switch.ports["priority"]["late"][:, PRIORITY].sum() > 100
    assert (found.lost, found.late, switch.dropped) == (0, 0, {})


def test_senders_without_cpu_time_lose_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_9, lab=LOSSLESS, pfc=PFC, link={"rate": "100Mbit/s"})
    lab.provision()
    process = the_process(lab)

    def others() -> list[int]:
        return [pid for pid, _ in removal.residents(lab.name) if pid != process.pid]

    with busy_processors(), stopped_now_and_then(others, 0.1, 0.1) as stopped:
        result, _, _ = incast(lab, 2)
    assert len(stopped) > 1
    assert [(flow.lost, flow.late) for flow in result.flows] == [(0, 0)] * 8
    assert read(lab)["l0g0"].dropped == {}


@pytest.mark.parametrize("pfc", [PFC, None])
def test_an_incast_of_a_job_without_cpu_time_loses_nothing(
    make_lab: MakeLab, pfc: dict[str, Any] | None
) -> None:
    """Also without PFC: eight senders together have no more in flight than the receiver's window."""
    sections = {"pfc": pfc} if pfc else {}
    lab = make_lab(GROUP_OF_9, lab=LOSSLESS, link={"rate": "100Mbit/s"}, **sections)
    lab.provision()

    def everybody() -> list[int]:
        return [pid for pid, _ in removal.residents(lab.name)]

    options = ("--algorithm", "ps", "--servers", "1", "--size", "512KiB", "--iters", "1", "--warmup", "0")
    with busy_processors(), stopped_now_and_then(everybody, 0.1, 0.02):
        done = lab.run("run", "--transport", "xdp", *options, "--check", "--json", "-")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["wrong"] == 0
    assert read(lab)["l0g0"].dropped == {}


@pytest.mark.parametrize("enabled", [True, False])
def test_ecn_marks_are_answered_where_the_file_enables_them(make_lab: MakeLab, enabled: bool) -> None:
    ecn = {"kmin": "8KiB", "kmax": "32KiB", "enabled": enabled}
    group = {"kind": "bcube", "n": 3, "levels": 1}
    lab = make_lab(group, lab=LOSSLESS, pfc=PFC, link={"rate": "100Mbit/s"}, roce={"ecn": ecn})
    lab.provision()
    options = ("--algorithm", "ps", "--servers", "1", "--size", "512KiB", "--iters", "2", "--warmup", "0")
    done = lab.run("run", "--transport", "xdp", *options, "--check")
    assert done.returncode == 0, done.stderr
    ports = read(lab)["l0g0"].ports["priority"]
    marked, notified = ports["ecn_marks"][0, PRIORITY], ports["rx_frames"][:, CNP_PRIORITY]
    assert (marked > 0, notified[0] > 0) == (enabled, enabled)
    assert notified.sum() <= ports["ecn_marks"][:, PRIORITY].sum()


def test_without_pfc_the_same_incast_loses(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_9, lab=LOSSLESS, link={"rate": "100Mbit/s"})
    lab.provision()
    result, _, fabric = incast(lab, 1.5)
    assert sum(flow.lost for flow in result.flows) > 1000
    assert all(result.of(server.ports[0]).pause_frames == (0,) * 8 for server in fabric.servers)
    assert set(read(lab)["l0g0"].dropped) == {"drop_tail"}


@pytest.mark.parametrize(("shape", "bounded"), [(BCUBE_2_2, True), (TREE, False)])
def test_a_frozen_receiver_pauses_its_switch_in_bcube_and_a_whole_tree(
    make_lab: MakeLab, shape: dict[str, Any], bounded: bool
) -> None:
    lab = make_lab(shape, lab={**LOSSLESS, "buffer": "256KiB"}, pfc=PFC, link={"rate": "100Mbit/s"})
    lab.provision()
    topology, fabric = lab.load()
    # On a busy machine other ports pause at times, too; the frozen receiver pauses in every sample.
    for _ in range(3):
        spread = measure("", topology, fabric, 1.0)
        assert spread.lost == 0
        node, _, port = spread.frozen.partition(".")
        own = fabric.peer(fabric.nodes[node].ports[int(port[1:])]).node
        if not bounded or spread.switches_reached == (own,):
            break
    if bounded:
        assert spread.switches_reached == (own,)
        assert spread.server_ports_stopped == 1  # its one neighbour there
        assert sum(share > PAUSED for share in spread.before) == 0
        assert spread.left > 0.6
    else:
        assert own in spread.switches_reached and len(spread.switches_reached) >= 3
        assert spread.server_ports_stopped == len(fabric.servers) - 1
        assert spread.left < 0.5


def test_its_namespaces_contain_no_other_process(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP_OF_2, lab=LOSSLESS)
    lab.provision()
    assert {pid for pid, _ in removal.residents(lab.name)} == {the_process(lab).pid}
