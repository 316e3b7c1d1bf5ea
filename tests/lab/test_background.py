# SPDX-License-Identifier: Apache-2.0
"""A soft switch or delay line that died is reported by top, pfc events and the exporter, with its remedy."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from textual.pilot import Pilot

from orchestrator.exporter import FabricCollector
from orchestrator.lab import background, delay_line, soft_switch
from orchestrator.telemetry import watching
from orchestrator.top.app import TopApp
from tests.lab.rig import Lab, hipsnet
from tests.lab.test_top import drive, text

Running = Sequence[soft_switch.Running | delay_line.Running]
PROCESSES: dict[str, Callable[[str], Running]] = {
    "soft switch": soft_switch.running,
    "delay line": delay_line.running,
}


@pytest.fixture
def lab(make_lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab with a soft switch and a delay line; the working directory is the folder of its file."""
    lab = make_lab(link={"delay": "100us"}, pfc={"priorities": [3]}, lab={"switch": "lossless"})
    lab.provision()
    monkeypatch.chdir(lab.file.parent)
    return lab


def kill(lab: Lab, name: str) -> None:
    """Kill a background process, as the kernel does when memory runs out."""
    (process,) = PROCESSES[name](lab.name)
    handle = os.pidfd_open(process.pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        assert select.select([handle], [], [], 10)[0]
    finally:
        os.close(handle)


@contextmanager
def metrics(lab: Lab) -> Iterator[Callable[[str], float | None]]:
    """A function that scrapes the exporter and returns one metric of the fabric."""
    with watching.watch(*lab.load(), None) as (ports, sources):
        registry = CollectorRegistry()
        registry.register(FabricCollector(ports, sources.read, lambda: None))
        yield lambda name: registry.get_sample_value(name, {"fabric": lab.name})


@pytest.mark.parametrize("name", PROCESSES)
def test_top_shows_a_banner_while_a_process_does_not_run(lab: Lab, name: str) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        assert not app.banner.display and name not in "".join(text(app))
        first_line = text(app)[1]
        kill(lab, name)
        app.poll()
        await pilot.pause()
        shown = text(app)
        assert f"! {name} of {lab.name} is not running: " in shown[1]
        assert (
            f" run `hipsnet provision {lab.file.name}`" in shown[2]
        )  # on one line, so that it can be copied
        assert max(len(line) for line in shown) <= 80
        await pilot.press("4")
        await pilot.pause()
        assert any("! not running" in line and name in line for line in text(app))
        await pilot.press("1")
        soft_switch.serve(*lab.load())
        delay_line.serve(lab.load()[1])
        await until_restarted(app, pilot)
        assert text(app)[1] == first_line
        await pilot.press("4")
        await pilot.pause()
        assert any("running again" in line and name in line for line in text(app))

    drive(lab, act)


async def until_restarted(app: TopApp, pilot: Pilot[None]) -> None:
    end = time.monotonic() + 10
    while app.banner.display:
        assert time.monotonic() < end
        await pilot.pause(0.1)
        app.poll()
    await pilot.pause()


@pytest.mark.parametrize("name", PROCESSES)
def test_a_dead_process_is_reported_to_scripts_and_prometheus(lab: Lab, name: str) -> None:
    states = {entry["name"]: entry["running"] for entry in top(lab)}
    assert states == {"soft switch": True, "delay line": True}
    metric = f"hipsnet_{name.replace(' ', '_')}_up"
    with metrics(lab) as value:
        assert value(metric) == 1
        kill(lab, name)
        assert value(metric) == 0
    restart = f"hipsnet provision {lab.file.name}"
    (dead,) = (entry for entry in top(lab) if not entry["running"])
    assert dead == {"name": name, "running": False, "restart": restart}
    assert f"run `{restart}`" in lab.run("top", "--once", "--interval", "0.1").stdout
    events = ("pfc", "events", lab.file, "--seconds", "0.1")
    assert f"{name} of {lab.name} is not running" in hipsnet(*events).stdout
    (dead,) = (
        entry for entry in json.loads(hipsnet(*events, "--json").stdout)["processes"] if not entry["running"]
    )
    assert dead["restart"] == restart
    lab.provision()
    assert all(entry["running"] for entry in top(lab))


def top(lab: Lab) -> list[dict[str, object]]:
    """The processes in the JSON of top."""
    done = lab.run("top", "--json", "--interval", "0.1")
    found: list[dict[str, object]] = json.loads(done.stdout)["processes"]
    return found


def test_a_lab_that_needs_no_process_reports_none(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab()
    lab.provision()
    assert top(lab) == []
    with metrics(lab) as value:
        assert value("hipsnet_soft_switch_up") is None and value("hipsnet_delay_line_up") is None
    lab.run("impair", "s00.p0", "--delay", "1ms")
    assert [entry["name"] for entry in top(lab)] == ["delay line"]


def test_the_remedy_quotes_the_file_as_a_shell_needs_it(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make_lab()
    lab.file = lab.file.rename(tmp_path / "my lab.yaml")
    lab.provision()
    assert background.restart_command(lab.name) == f"hipsnet provision '{lab.file}'"
