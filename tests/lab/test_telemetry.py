# SPDX-License-Identifier: Apache-2.0
"""Telemetry of a lab equals the counters of its parts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from textual.pilot import Pilot

from hipsnet.node import bpf, namespace, pins
from hipsnet.node.ethtool_ioctl import Statistics
from hipsnet.node.forwarding import read_counters
from hipsnet.stack.switch import counters
from orchestrator.exporter import FabricCollector
from orchestrator.lab import soft_switch
from orchestrator.telemetry import fields, watching
from orchestrator.telemetry.monitor import Monitor
from orchestrator.top.app import TopApp
from tests.kernel.frames import pfc
from tests.lab.rig import Done, Lab, hipsnet_process, run
from tests.lab.test_hosts import Host, hosts
from tests.lab.test_lossless import incast
from tests.lab.test_top import drive, line_of, pause, text

__all__ = ["hosts"]  # a fixture
_ARRAY = 2  # BPF_MAP_TYPE_ARRAY


def test_an_incast_on_a_lossless_switch_is_counted_at_both_ends(make_lab: Callable[..., Lab]) -> None:
    """Two servers send to the first and are paused; the switch's counters and the servers' programs agree."""
    lab = make_lab(
        {"kind": "bcube", "n": 3, "levels": 1},
        lab={"switch": "lossless", "buffer": "256KiB"},
        pfc={"priorities": [3]},
        link={"rate": "100Mbit/s"},
    )
    lab.provision()
    with watching.watch(*lab.load(), None) as (ports, sources):
        monitor = Monitor(ports, sources.read)
        incast(lab, 1)
        snapshot = monitor.poll()
        time.sleep(0.25)  # the switch has updated its counters
        reading = sources.read()
    switch = counters.read(soft_switch.counters_path(lab.name))["l0g0"]
    stopped = 0
    for number, port in enumerate(ports.ports):
        if port.role != "switch":
            continue
        row = switch.ports[port.index]
        server = ports.numbers[port.peer_name]
        pause_frames = int(row["pause"]["tx_pause_frames"][3])
        assert reading.values[fields.TX_PAUSE_FRAMES, number, 3] == pause_frames
        assert reading.values[fields.RX_PAUSE_FRAMES, server, 3] == pause_frames  # counted by another program
        assert reading.values[fields.RX_PAUSE_US, server, 3] == row["pause"]["tx_pause_us"][3]
        assert reading.values[fields.RX_BYTES, server, 3] == row["priority"]["tx_bytes"][3]
        assert reading.values[fields.DROPS, number, 3] == 0
        stopped += pause_frames > 0
    assert stopped == 2
    by_switch = {pause.of for pause in snapshot.pauses if pause.by.startswith("l0g0")}
    assert len(by_switch) == 2
    assert all(pause.roots == ("l0g0",) and pause.share for pause in snapshot.pauses)
    assert set().union(*(pause.queues for pause in snapshot.pauses)) <= {
        "l0g0.p0"
    }  # empty, if all has drained


def test_the_screen_shows_the_counters_of_an_incast(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(
        {"kind": "bcube", "n": 3, "levels": 1},
        lab={"switch": "lossless", "buffer": "256KiB"},
        pfc={"priorities": [3]},
        link={"rate": "100Mbit/s"},
    )
    lab.provision()

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await asyncio.to_thread(incast, lab, 1)
        app.poll()
        await pilot.press("slash", *"server", "enter", "enter")
        await pilot.pause()
        port = text(app)[0].split()[1]
        node, _, number = port.partition(".p")
        shown = line_of(app, "rx_pause_frames")
        counted = read_counters(lab.name, node)["pfc"][int(number), 3]
        assert shown[2] == str(counted) and counted > 0
        assert float(line_of(app, "rx_pause_us")[2]) > 0
        assert any(f"pauses {port} in priority 3" in line for line in text(app))

    drive(lab, act)


def test_a_job_reports_the_pauses_of_each_size(make_lab: Callable[..., Lab]) -> None:
    """All servers send to one (a parameter server), so that the switch has to pause them."""
    lab = make_lab(
        {"kind": "bcube", "n": 3, "levels": 1},
        lab={"switch": "lossless", "buffer": "256KiB"},
        pfc={"priorities": [3]},
        link={"rate": "100Mbit/s"},
    )
    lab.provision()
    with watching.watch(*lab.load(), None) as (ports, sources):
        before = sources.read()
        done = lab_process(lab, "--algorithm", "ps", "--sizes", "512KiB,1MiB", "--iters", "3", "--json", "-")
        after = sources.read()
    assert done.returncode == 0, done.stderr
    found = [result["pauses"] for result in json.loads(done.stdout)["results"]]
    servers = [number for number, port in enumerate(ports.ports) if port.role == "server"]
    grown = (after.values - before.values)[fields.RX_PAUSE_FRAMES, servers, 3]
    assert sum(entry["rx_frames"] for entry in found) == pytest.approx(int(grown.sum()), abs=4)
    assert all(entry["rx_frames"] > 0 and entry["rx_us"] > 0 for entry in found)
    names = [ports.ports[number].name for number in servers]
    assert all(entry["worst"] in names for entry in found)
    names, units = (line.split() for line in done.stderr.splitlines() if " size " in line or " (B) " in line)
    assert (names[-3:], units[-3:]) == (["pauses", "pause", "worst"], ["(rx/tx)", "(us)", "port"])
    assert f"{found[1]['rx_frames']}/{found[1]['tx_frames']}" in done.stderr


def lab_process(lab: Lab, *arguments: str) -> Done:
    return hipsnet_process("run", lab.file, "--transport", "xdp", *arguments)


def test_frames_without_a_program_are_counted_by_the_kernel(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab()
    lab.provision()
    with watching.watch(*lab.load(), None) as (ports, sources):
        before = sources.read()
        frame = bytes(12) + b"\x88\xb5" + bytes(86)  # an experimental protocol without a receiver
        with (
            namespace.inside(lab.namespace("s01")),
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
        ):
            sender.bind(("p0", 0))
            for _ in range(50):
                sender.send(frame)
        after = sources.read()
    grown = (after.values - before.values)[:, :, fields.ALL]
    assert grown[fields.TX_FRAMES, ports.numbers["s01.p0"]] >= 50
    assert (
        grown[fields.RX_FRAMES, ports.numbers["l0g0.p1"]] == grown[fields.TX_FRAMES, ports.numbers["s01.p0"]]
    )
    assert grown[fields.RX_BYTES, ports.numbers["l0g0.p1"]] >= 5000


def test_queues_that_overflow_are_losses(make_lab: Callable[..., Lab]) -> None:
    """A shaper queues a thousand frames; the kernel's own tool reports the same number of drops."""
    lab = make_lab(link={"rate": "1Mbit/s"})
    lab.provision()
    with watching.watch(*lab.load(), None) as (ports, sources):
        before = sources.read()
        with (
            namespace.inside(lab.namespace("s01")),
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
        ):
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
            sender.bind(("p0", 0))
            frame = bytes(12) + b"\x88\xb5" + bytes(1486)
            for _ in range(1500):
                try:
                    sender.send(frame, socket.MSG_DONTWAIT)
                except OSError:  # ENOBUFS: the queue is full
                    continue
        after = sources.read()
        number = ports.numbers["s01.p0"]
        lost = int((after.values - before.values)[fields.DROPS, number, fields.ALL])
        said = run("tc", "-n", lab.namespace("s01"), "-s", "qdisc", "show", "dev", "p0")
    dropped = re.search(r"dropped (\d+)", said)
    assert dropped and lost == int(dropped[1]) > 300
    assert after.values[fields.BUFFER, number, fields.ALL] > 1_000_000


def test_rates_and_histories_restart_when_a_fabric_is_rebuilt(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(lab={"switch": "lossless"}, pfc={"priorities": [3]}, link={"rate": "unlimited"})
    lab.provision()
    with watching.watch(*lab.load(), None) as (ports, sources):
        monitor = Monitor(ports, sources.read)
        lab.run("ping")
        number = ports.numbers["s01.p0"]
        counters_only = [place for place, field in enumerate(fields.FIELDS) if not field.is_gauge]
        assert np.nanmax(monitor.poll().rates.amounts[counters_only, number]) > 0
        lab.run("destroy")
        lab.provision()
        again = monitor.poll()
        assert again.reading.present.all() and again.reading.known[fields.RX_FRAMES, :, fields.ALL].all()
        assert np.nanmax(again.rates.amounts[counters_only]) == 0
        past = monitor.past("rx_frames", number, fields.ALL)
        assert past[~np.isnan(past)].tolist() == [0.0]
        sent = pause(lab, "l0g0", "p1", 1 << 3, 5)
        assert monitor.poll().rates.amounts[fields.RX_PAUSE_FRAMES, number, 3] == sent == 5


@contextmanager
def of_another_version(lab: Lab) -> Iterator[None]:
    """The soft switch's counters have another mark, and two servers' counters another size."""
    file = soft_switch.counters_path(lab.name)
    pinned = [pins.node_folder(lab.name, node) / "counters" for node in ("s0", "s1")]
    mark = file.read_bytes()[:8]
    with bpf.closing(bpf.create_map("other", _ARRAY, 4, 8, 1)) as other, file.open("r+b") as counters_file:
        for path in pinned:
            path.rename(path.with_name("kept"))
            bpf.pin(other, path)
        os.pwrite(counters_file.fileno(), bytes(8), 0)
        try:
            yield
        finally:
            os.pwrite(counters_file.fileno(), mark, 0)
            for path in pinned:
                path.unlink()
                path.with_name("kept").rename(path)


def test_counters_of_another_version_are_reported_once(
    make_lab: Callable[..., Lab], capsys: pytest.CaptureFixture[str]
) -> None:
    lab = make_lab(
        {"kind": "bcube", "n": 3, "levels": 1}, lab={"switch": "lossless"}, pfc={"priorities": [3]}
    )
    lab.provision()
    with of_another_version(lab), watching.watch(*lab.load(), None) as (ports, sources):
        monitor = Monitor(ports, sources.read)
        first, second = monitor.poll(), monitor.poll()
        said = {event.port: event.detail for event in first.events if event.kind == "unreadable"}
        assert set(said) == {"s0 and 1 more", "soft switches"}
        assert "hipsnet provision" in said["s0 and 1 more"] and "version" in said["soft switches"]
        assert second.events == ()
        assert first.reading.known[fields.RX_PAUSE_FRAMES, ports.numbers["s2.p0"], 3]
        assert not first.reading.known[fields.RX_PAUSE_FRAMES, ports.numbers["s0.p0"]].any()
        collector = FabricCollector(ports, sources.read, lambda: None)
        capsys.readouterr()
        for _ in range(2):
            collector.collect()
        assert len(capsys.readouterr().err.splitlines()) == 2
        done = lab.run("top", "--csv", "--interval", "0.1")
        assert done.returncode == 0 and len(done.stderr.splitlines()) == 2
    done = lab.run("top", "--once", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_drivers_statistics_are_those_that_ethtool_shows(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab()
    lab.provision()
    with (
        namespace.inside(lab.namespace("s00")),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control,
    ):
        found = Statistics(control, "p0")
        numbers = dict(zip(found.names, found.read(), strict=True))
        with pytest.raises(OSError):
            Statistics(control, "nosuch0")
    assert found.driver == "veth"
    said = run("ip", "netns", "exec", lab.namespace("s00"), "ethtool", "-S", "p0")
    shown = {name: int(value) for name, value in re.findall(r"^\s+(\w+): (\d+)$", said, re.MULTILINE)}
    assert numbers == shown and "peer_ifindex" in numbers


def test_a_host_shows_its_own_ports(hosts: tuple[Lab, list[Host]]) -> None:
    lab, (host, *_) = hosts
    assert host.hipsnet("provision", lab.file, "--node", host.server).returncode == 0
    with (
        namespace.inside(f"{lab.name}h-sw"),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
    ):
        sender.bind(("e0", 0))
        for _ in range(13):
            sender.send(pfc(1 << 3))
    done = host.hipsnet("top", lab.file, "--node", host.server, "--json", "--interval", "0.2")
    assert done.returncode == 0, done.stderr
    found, whole = json.loads(done.stdout)["samples"]
    assert (found["port"], found["priority"], found["up"]) == (f"{host.server}.p0", 3, True)
    assert found["total"]["rx_pause_frames"] == 13
    assert whole["priority"] is None and {"rx_bytes", "tx_bytes"} <= whole["total"].keys()
    refused = host.hipsnet("top", lab.file, "--json")
    assert refused.returncode == 2 and "--node" in refused.stderr
