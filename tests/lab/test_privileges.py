# SPDX-License-Identifier: Apache-2.0
"""The processes that handle a lab's frames have dropped all privileges and still work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hipsnet.stack.switch import counters
from orchestrator.lab import delay_line, soft_switch
from orchestrator.pfc import traffic
from orchestrator.pfc.traffic import Flow
from tests.lab.rig import Lab

MakeLab = Callable[..., Lab]
PRIORITY = 3
NO_PRIVILEGES = {
    **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16),
    "NoNewPrivs": "1",
}


@pytest.fixture(scope="module")
def lab(make_shared_lab: MakeLab) -> Iterator[Lab]:
    """Three servers on a soft switch, with a delay on every cable."""
    made = make_shared_lab(
        {"kind": "bcube", "n": 3, "levels": 1},
        link={"rate": "100Mbit/s", "delay": "1ms"},
        lab={"switch": "lossless"},
        pfc={"priorities": [PRIORITY]},
    )
    made.provision()
    yield made


def pids(lab: Lab) -> dict[str, int]:
    (switch,), (line,) = soft_switch.running(lab.name), delay_line.running(lab.name)
    return {"soft switch": switch.pid, "delay line": line.pid}


def privileges(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return {name: found[name] for name in NO_PRIVILEGES}


def wait_until(condition: Callable[[], bool], bound_s: float = 5) -> None:
    end = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("process", ["soft switch", "delay line"])
def test_no_privilege_is_left(lab: Lab, process: str) -> None:
    pid = pids(lab)[process]
    wait_until(lambda: privileges(pid) == NO_PRIVILEGES)


def test_frames_are_carried_and_senders_paused(lab: Lab) -> None:
    topology, fabric = lab.load()
    first, *others = (server.ports[0] for server in fabric.servers)
    flows = [Flow(port, first) for port in others]
    generator = traffic.start(topology, fabric, flows, 1)
    wait_until(lambda: privileges(generator.pid) == NO_PRIVILEGES)
    result = traffic.finish(generator, flows)
    assert all(flow.received > 0 for flow in result.flows)
    (switch,) = counters.read(soft_switch.counters_path(lab.name)).values()
    assert switch.ports["pause"]["tx_pause_frames"][:, PRIORITY].sum() > 0
    assert switch.dropped == {}


def test_sigterm_ends_them(lab: Lab) -> None:
    for pid in pids(lab).values():
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not soft_switch.running(lab.name) and not delay_line.running(lab.name))
    assert lab.inspect()["drift"] == 2
    lab.provision()
    assert lab.inspect()["drift"] == 0
