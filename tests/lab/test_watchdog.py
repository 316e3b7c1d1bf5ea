# SPDX-License-Identifier: Apache-2.0
"""A frozen receiver's storm in a lab: detected in time, contained, and restored when it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import pytest

from hipsnet.node.forwarding import frames_by_reason, read_counters
from hipsnet.stack.switch import counters, events
from hipsnet.stack.switch.events import SwitchEvent
from hipsnet.topology import Fabric
from hipsnet.topology.fabric import Port
from orchestrator.lab import soft_switch
from orchestrator.pfc import traffic
from orchestrator.pfc.traffic import Flow
from orchestrator.telemetry import watching
from orchestrator.telemetry.monitor import Monitor
from tests.kernel.frames import ethernet, ipv4, pfc, udp
from tests.lab.rig import Lab, hipsnet
from tests.lab.test_deadlock import sender

MakeLab = Callable[..., Lab]

MS = 1_000_000
PRIORITY = 3
DETECT, RESTORE = 200, 300
GROUP_OF_4 = {"kind": "bcube", "n": 4, "levels": 1}


def watched(make_lab: MakeLab, action: str) -> Lab:
    watchdog = {"detect_ms": DETECT, "restore_ms": RESTORE, "action": action}
    lab = make_lab(
        GROUP_OF_4,
        lab={"switch": "lossless", "buffer": "256KiB"},
        link={"rate": "100Mbit/s"},
        pfc={"priorities": [PRIORITY], "watchdog": watchdog},
    )
    lab.provision()
    return lab


def ports(lab: Lab) -> Sequence[Port]:
    return [server.ports[0] for server in lab.load()[1].servers]


def wait_for(lab: Lab, count: int) -> tuple[SwitchEvent, ...]:
    """Wait for this many events; the bound keeps a failure short."""
    end = time.monotonic() + 20
    while len(found := events.read(soft_switch.counters_path(lab.name))) < count:
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def storm(lab: Lab, seconds: float) -> tuple[traffic.Result, tuple[SwitchEvent, ...]]:
    """The first server is frozen; one sends to it alone, another to it and to the fourth as well."""
    topology, fabric = lab.load()
    frozen, alone, both, well = ports(lab)
    flows = [Flow(alone, frozen), Flow(both, frozen), Flow(both, well)]
    kinds = ("storm detected", "storm restored")
    with watching.watch(topology, fabric, None) as (watched_ports, sources):
        monitor = Monitor(watched_ports, sources.read)
        result = traffic.run(topology, fabric, flows, seconds, (frozen,))
        found = wait_for(lab, 2)
        log = [(event.kind, event.port) for event in monitor.poll().events if event.kind in kinds]
    assert log == [(kind, "l0g0.p0") for kind in kinds]
    return result, found


@pytest.mark.parametrize("action", ["drop", "alert"])
def test_a_storm_is_detected_in_its_time_and_held_where_it_is(make_lab: MakeLab, action: str) -> None:
    lab = watched(make_lab, action)
    topology, fabric = lab.load()
    frozen, _, both, well = ports(lab)
    result, (begun, restored) = storm(lab, 2.0)
    assert (begun.kind, begun.switch, begun.port, begun.priority) == ("storm", "l0g0", 0, PRIORITY)
    assert (begun.action, begun.victims) == (action, (1, 2))
    # From the first poll, of a tenth of the time, in which it was paused all the time.
    assert DETECT * MS <= begun.time_ns - begun.began_ns <= 1.5 * DETECT * MS
    assert (restored.kind, restored.port, restored.began_ns) == ("restored", 0, begun.time_ns)
    (_, _, rest) = result.flows
    switch = counters.read(soft_switch.counters_path(lab.name))["l0g0"]
    if action == "drop":
        assert rest.lost == 0
        assert rest.received_bytes * 8 > 0.3 * 50e6 * 1.5  # its half of the cable, most of the time
        assert set(switch.dropped) == {"drop_storm"}
        assert restored.frames == switch.dropped["drop_storm"]
    else:
        assert switch.dropped == {}
        assert rest.received_bytes * 8 < 0.3 * 50e6 * 1.5  # it queues behind the stopped frames
    assert traffic.run(topology, fabric, [Flow(both, frozen), Flow(both, well)], 0.5).flows[0].lost == 0
    report = json.loads(hipsnet("pfc", "events", lab.file, "--json").stdout)
    assert report["watchdog"] == {"detect_ms": DETECT, "restore_ms": RESTORE, "action": action}
    assert report["deadlocks"] == []
    assert [event["kind"] for event in report["events"]] == ["storm", "restored"]
    for event in report["events"]:
        assert (event["port"], event["culprit"], event["priority"]) == ("l0g0.p0", "s0.p0", PRIORITY)
        assert (event["victims"], event["senders"]) == (["l0g0.p1", "l0g0.p2"], ["s1.p0", "s2.p0"])
    shown = hipsnet("pfc", "events", lab.file)
    assert shown.returncode == 0 and "restored" in shown.stdout and "no deadlock now" in shown.stdout


def crossing(fabric: Fabric, dscp: int) -> tuple[Port, Port, bytes]:
    """Path from the first server of a ring through its neighbour: (egress, egress of the neighbour, frame)."""
    first = fabric.servers[0]
    out = first.ports[0]
    entry = fabric.peer(out)
    middle = next(server for server in fabric.servers if server.name == entry.node)
    onward = next(port for port in middle.ports if port != entry)
    last = next(server for server in fabric.servers if server.name == fabric.peer(onward).node)
    packet = ipv4(str(last.identity), udp(4791, bytes(200)), tos=dscp << 2, source=str(first.identity))
    return out, onward, ethernet(packet, to=entry.mac, source=out.mac)


@pytest.mark.parametrize("action", ["drop", "forward", "alert"])
def test_a_server_without_any_process_drops_a_storm(make_lab: MakeLab, action: str) -> None:
    lab = make_lab(
        {"kind": "torus", "dims": [4]},
        link={"rate": "20Mbit/s"},  # a pause lasts 1.7 s
        pfc={
            "priorities": [PRIORITY],
            "watchdog": {"detect_ms": DETECT, "restore_ms": RESTORE, "action": action},
        },
    )
    lab.provision()
    topology, fabric = lab.load()
    out, onward, frame = crossing(fabric, 26)
    _, _, other = crossing(fabric, 0)
    culprit, node = fabric.peer(onward), onward.node

    def moved(name: str) -> int:
        return frames_by_reason(read_counters(lab.name, node)).get(name, 0)

    def reported() -> list[dict[str, object]]:
        done = hipsnet("pfc", "events", lab.file, "--json", "--seconds", "0.1")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, object]] = json.loads(done.stdout)["events"]
        return found

    with (
        watching.watch(topology, fabric, None) as (watched_ports, sources),
        sender(lab, culprit) as pauses,
        sender(lab, out) as sends,
    ):
        monitor = Monitor(watched_ports, sources.read)
        pauses.send(pfc(1 << PRIORITY))
        time.sleep(DETECT / 1e3)
        assert reported() == []
        for _ in range(10):
            sends.send(frame)
            sends.send(other)
        assert moved("drop_storm") == (10 if action == "drop" else 0)
        assert moved("forwarded") == (10 if action == "drop" else 20)
        (event,) = monitor.poll().events
        assert (event.kind, event.port) == ("storm detected", f"{node}.{onward.name}")
        assert f"paused by {culprit.node}.{culprit.name}" in event.detail
        assert f"holds up {out.node}.{out.name}" in event.detail
        pauses.send(pfc(1 << PRIORITY, (0,) * 8))
        time.sleep(RESTORE / 1e3)
        assert [found.kind for found in monitor.poll().events] == ["storm restored"]
    begun, restored = reported()
    for found in (begun, restored):
        assert (found["port"], found["priority"], found["action"]) == (event.port, PRIORITY, action)
        assert found["culprit"] == f"{culprit.node}.{culprit.name}"
        assert found["senders"] == [f"{out.node}.{out.name}"]
        assert found["victims"] == [f"{node}.{fabric.peer(out).name}"]
    assert restored["frames"] == moved("drop_storm")
    assert lab.inspect()["drift"] == 0


def test_without_the_key_there_is_no_watchdog(make_lab: MakeLab) -> None:
    lab = make_lab(
        {"kind": "bcube", "n": 2, "levels": 1},
        lab={"switch": "lossless"},
        link={"rate": "100Mbit/s"},
        pfc={"priorities": [PRIORITY]},
    )
    lab.provision()
    topology, fabric = lab.load()
    frozen, other = ports(lab)
    traffic.run(topology, fabric, [Flow(other, frozen)], 1.0, (frozen,))
    assert events.read(soft_switch.counters_path(lab.name)) == ()
