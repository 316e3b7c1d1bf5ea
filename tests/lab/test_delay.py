# SPDX-License-Identifier: Apache-2.0
"""Cables with a delay: frames arrive late, whole and in order; the delay line starts and stops with the lab."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hipsnet.node.forwarding import frames_by_reason, read_counters
from hipsnet.node.namespace import inside
from orchestrator.lab import delay_line, state
from orchestrator.provision import removal
from tests.kernel.frames import ARP, VLAN, ethernet, ipv4, pfc
from tests.lab.rig import BCUBE_2_2, Lab, hipsnet, run, traces
from tests.lab.test_kill import killed_after, points

MakeLab = Callable[..., Lab]

PAIR = {"kind": "torus", "dims": [2]}
GROUP = {"kind": "bcube", "n": 2, "levels": 1}
CABLE = "s0.p0"
PORT = 4791
LATE_S = 2.0
"""Time after which a test declares a frame lost; generous, for a busy machine."""


@contextmanager
def receiver(lab: Lab, node: str) -> Iterator[socket.socket]:
    with inside(lab.namespace(node)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        opened.bind(("", PORT))
        opened.settimeout(LATE_S)
        yield opened


@contextmanager
def sender(lab: Lab, node: str) -> Iterator[socket.socket]:
    with inside(lab.namespace(node)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        yield opened


def address(lab: Lab, node: str, port: int = 0) -> str:
    found = lab.load()[1].nodes[node].ports[port].address
    assert found is not None
    return str(found.ip)


def one_way_s(lab: Lab, source: str, to: str, count: int = 8) -> list[float]:
    """Measure the one-way delay of datagrams of all sizes from empty to a full MTU."""
    took = []
    with receiver(lab, to) as there, sender(lab, source) as here:
        for number in range(count):
            content = os.urandom(8972 * number // (count - 1))
            begun = time.monotonic()
            here.sendto(content, (address(lab, to), PORT))
            assert there.recv(1 << 16) == content
            took.append(time.monotonic() - begun)
    return took


def round_trips_s(lab: Lab, source: str, to: str) -> list[float]:
    printed = run(
        "ip", "netns", "exec", lab.namespace(source), "ping", "-c5", "-i0.02", "-s8000", address(lab, to)
    )
    return [
        float(line.partition("time=")[2].split()[0]) / 1000
        for line in printed.splitlines()
        if "time=" in line
    ]


def the_process(lab: Lab) -> delay_line.Running:
    (found,) = delay_line.running(lab.name)
    return found


def delays(lab: Lab) -> set[int]:
    """The delays in microseconds of all ports, as reported by inspect."""
    return {port["delay_us"] for node in lab.inspect()["nodes"] for port in node["ports"]}


def impair(lab: Lab, *options: str) -> None:
    done = lab.run("impair", CABLE, *options)
    assert done.returncode == 0, done.stderr


def test_no_frame_comes_early_and_a_round_trip_takes_two_delays(make_lab: MakeLab) -> None:
    lab = make_lab(PAIR, link={"delay": "20ms"})
    lab.provision()
    for took in (one_way_s(lab, "s0", "s1"), one_way_s(lab, "s1", "s0")):
        assert min(took) >= 0.020
        assert min(took) < 0.035
    took = round_trips_s(lab, "s0", "s1")
    assert len(took) == 5
    assert min(took) >= 0.040
    assert min(took) < 0.070
    assert delays(lab) == {20_000}
    assert lab.inspect()["drift"] == 0
    assert lab.provision() == []


def test_a_plan_shows_the_delay_line_and_makes_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(PAIR, link={"delay": "20ms"})
    before = traces(lab.name)
    done = lab.run("provision", "--dry-run", "--exit-code")
    assert done.returncode == 3
    assert "delay line process: for 2 ends of cables" in done.stdout
    assert (traces(lab.name), delay_line.running(lab.name)) == (before, ())


def test_a_delay_changes_in_place(make_lab: MakeLab) -> None:
    lab = make_lab(PAIR)
    lab.provision()
    assert (delays(lab), delay_line.running(lab.name)) == ({0}, ())
    impair(lab, "--delay", "30ms")
    process = the_process(lab)
    assert min(one_way_s(lab, "s0", "s1")) >= 0.030
    impair(lab, "--rate", "100Mbit/s")
    impair(lab, "--delay", "10ms")
    assert the_process(lab) == process
    took = one_way_s(lab, "s0", "s1")
    assert 0.010 <= min(took) < 0.030
    (port,) = lab.inspect()["nodes"][0]["ports"]
    assert (port["rate_bps"], port["delay_us"]) == (100_000_000, 10_000)
    lab.edit(link={"delay": "15ms"})
    assert {change["aspect"] for change in lab.provision()} == {"delay", "rate"}
    assert the_process(lab) == process
    assert min(one_way_s(lab, "s1", "s0")) >= 0.015
    impair(lab, "--delay", "0us")
    assert (delays(lab), delay_line.running(lab.name)) == ({0}, ())
    assert len(one_way_s(lab, "s0", "s1")) == 8
    impair(lab, "--reset")
    assert (delays(lab), lab.inspect()["drift"]) == ({15_000}, 0)
    lab.edit(link={})
    lab.provision()
    assert (delays(lab), delay_line.running(lab.name), lab.inspect()["drift"]) == ({0}, (), 0)


def test_one_cable_of_many_is_delayed_alone(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_2_2)
    lab.provision()
    done = lab.run("impair", "s00.p0", "--delay", "20ms")
    assert done.returncode == 0, done.stderr
    assert len(the_process(lab).arguments) == 2 * 3
    assert min(one_way_s(lab, "s00", "s01")) >= 0.020
    assert min(one_way_s(lab, "s01", "s00")) >= 0.020
    assert min(one_way_s(lab, "s10", "s11")) < 0.020
    assert lab.run("impair", "s01.p0", "--delay", "30ms").returncode == 0
    assert len(the_process(lab).arguments) == 4 * 3
    assert min(one_way_s(lab, "s00", "s01")) >= 0.050
    assert lab.run("impair", "s00.p0", "--reset").returncode == 0
    assert len(the_process(lab).arguments) == 2 * 3
    assert 0.030 <= min(one_way_s(lab, "s00", "s01")) < 0.050
    assert lab.provision()
    assert delay_line.running(lab.name) == ()


def raw(lab: Lab, node: str, protocol: int = 0) -> socket.socket:
    """A socket on port p0 of a node that sends whole frames and, with a protocol, receives them."""
    with inside(lab.namespace(node)):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        opened.bind(("p0", protocol))
        opened.settimeout(LATE_S)
    return opened


def test_frames_of_every_kind_arrive_whole_and_in_order(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP, link={"delay": "5ms"})
    lab.provision()
    to = lab.load()[1].nodes["s1"].ports[0].mac
    tagged = struct.pack("!HH", 0x6003, ARP) + bytes(60)
    kinds = [
        ethernet(bytes(46), to=to, kind=ARP), pfc(0x08), ethernet(tagged, to=to, kind=VLAN),
        ethernet(ipv4("10.0.0.2", bytes(8980)), to=to), ethernet(ipv4("10.0.0.2", bytes(4096)), to=to),
        ethernet(ipv4("10.0.0.2", bytes(1480)), to=to), ethernet(bytes(46), to=to, kind=0x88B5),
    ]  # fmt: skip
    sent = []
    before = read_counters(lab.name, "l0g0")
    with raw(lab, "s0") as here, raw(lab, "l0g0", 0x0003) as there:
        for number in range(20):
            for frame in kinds:
                sent.append(frame[:-4] + struct.pack("!I", number))
                here.send(sent[-1])
        heard: list[bytes] = []
        while len(heard) < len(sent):
            frame, (_, _, direction, *_) = there.recvfrom(1 << 16)
            if direction != socket.PACKET_OUTGOING:
                heard.append(frame)
    plain = [frame for frame in heard if frame[12:14] != b"\x81\x00"]
    # The kernel strips the VLAN tag before the socket receives the frame.
    assert [frame for frame in plain if frame in set(sent)] == [
        frame for frame in sent if frame[12:14] != b"\x81\x00"
    ]
    assert len(heard) == len(sent)
    counters = read_counters(lab.name, "l0g0")
    assert counters["pfc"][0][3] - before["pfc"][0][3] == 20
    assert counters["passed"][0] - before["passed"][0] == len(sent)


def test_a_loss_rate_is_applied_once(make_lab: MakeLab) -> None:
    lab = make_lab(PAIR, link={"delay": "5ms"})
    lab.provision()
    impair(lab, "--loss", "50%")
    with sender(lab, "s0") as here:
        for _ in range(400):
            here.sendto(b"x", (address(lab, "s1"), PORT))
    time.sleep(0.2)
    found = frames_by_reason(read_counters(lab.name, "s1"))
    assert found["local"] + found["drop_loss"] == 400
    assert 120 < found["local"] < 280


def test_a_stream_arrives_whole_over_hops_that_xdp_forwards(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_2_2, link={"delay": "2ms", "rate": "1Gbit/s"})
    lab.provision()
    content = os.urandom(1 << 24)
    received = bytearray()

    def receive(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            while part := connection.recv(1 << 20):
                received.extend(part)

    with inside(lab.namespace("s11")), socket.create_server(("", PORT)) as listening:
        thread = threading.Thread(target=receive, args=(listening,))
        thread.start()
        with inside(lab.namespace("s00")), socket.create_connection((address(lab, "s11"), PORT)) as here:
            here.sendall(content)
        thread.join(30)
    assert bytes(received) == content
    middle = [read_counters(lab.name, node) for node in ("s01", "s10")]
    assert sum(int(found["forwarded"].sum()) for found in middle) > len(content) // 9000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_dead_delay_line_is_replaced_without_loss(make_lab: MakeLab, number: signal.Signals) -> None:
    lab = make_lab(PAIR, link={"delay": "5ms"})
    lab.provision()
    before = the_process(lab)
    os.kill(before.pid, number)
    while delay_line.running(lab.name):
        time.sleep(0.01)
    report = lab.inspect()
    assert (report["drift"], report["delay_line"]) == (
        1, ["delay line process: not running -> for 2 ends of cables"],
    )  # fmt: skip
    assert lab.run("provision", "--dry-run", "--exit-code").returncode == 3
    with receiver(lab, "s1") as there, sender(lab, "s0") as here:
        for text in (b"1", b"2", b"3"):
            here.sendto(text, (address(lab, "s1"), PORT))
        changes = lab.provision()
        assert [(change["aspect"], change["action"]) for change in changes] == [("delay line", "change")]
        assert [there.recv(9) for _ in range(3)] == [b"1", b"2", b"3"]
    after = the_process(lab)
    assert after.pid != before.pid and after.arguments == before.arguments
    assert lab.inspect()["drift"] == 0


def forget(lab: Lab) -> None:
    shutil.rmtree(state.folder(lab.name))


def stop(lab: Lab) -> None:
    os.kill(the_process(lab).pid, signal.SIGSTOP)


def kill(lab: Lab) -> None:
    os.kill(the_process(lab).pid, signal.SIGKILL)


def unname(lab: Lab) -> None:
    """Remove the name of the delay line's namespace."""
    run("ip", "netns", "del", the_process(lab).arguments[-2])


@pytest.mark.parametrize("harm", [None, forget, stop, kill, unname])
def test_a_destroy_leaves_nothing_of_it(make_lab: MakeLab, harm: Callable[[Lab], Any] | None) -> None:
    lab = make_lab(GROUP, link={"delay": "5ms"})
    clean = traces(lab.name)
    lab.provision()
    assert delay_line.running(lab.name)
    if harm:
        harm(lab)
    assert hipsnet("destroy", lab.name).returncode == 0
    assert (traces(lab.name), delay_line.running(lab.name)) == (clean, ())


def test_a_deleted_node_is_provisioned_again_with_its_delay(make_lab: MakeLab) -> None:
    lab = make_lab(GROUP, link={"delay": "5ms"})
    lab.provision()
    run("ip", "netns", "del", lab.namespace("s1"))
    lab.provision()
    assert min(one_way_s(lab, "s0", "s1")) >= 0.010
    assert (lab.provision(), lab.inspect()["drift"]) == ([], 0)


def test_a_delayed_fabric_is_changed_into_another(make_lab: MakeLab) -> None:
    lab = make_lab(BCUBE_2_2, link={"delay": "5ms"})
    clean = traces(lab.name)
    for fabric, hops in ((BCUBE_2_2, 2), (PAIR, 1), ({"kind": "torus", "dims": [3]}, 1), (GROUP, 2)):
        lab.edit(fabric=fabric)
        lab.provision()
        servers = [server.name for server in lab.load()[1].servers]
        assert min(one_way_s(lab, servers[0], servers[1])) >= 0.005 * hops
        assert (lab.provision(), lab.inspect()["drift"]) == ([], 0)
        living = {node for _, node in removal.residents(lab.name)}
        assert living <= set(lab.load()[1].nodes)
    hipsnet("destroy", lab.name)
    assert traces(lab.name) == clean


def test_the_next_command_finds_the_delay_line_of_a_killed_one(make_lab: MakeLab) -> None:
    lab = make_lab(PAIR, link={"delay": "2ms"})
    clean = traces(lab.name)
    total = killed_after(None, "provision", lab.file)
    for number, point in enumerate(points(total)[-10:]):
        hipsnet("destroy", lab.name)
        assert (traces(lab.name), delay_line.running(lab.name)) == (clean, ())
        killed_after(point, "provision", lab.file)
        if number % 2:
            lab.provision()
            assert len(delay_line.running(lab.name)) == 1
            assert (lab.provision(), lab.inspect()["drift"]) == ([], 0)
    total = killed_after(None, "impair", lab.file, CABLE, "--delay", "0us")
    for point in points(total)[::4]:
        lab.provision()
        killed_after(point, "impair", lab.file, CABLE, "--delay", "0us")
    lab.provision()
    assert min(one_way_s(lab, "s0", "s1")) >= 0.002
