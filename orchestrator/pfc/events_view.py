# SPDX-License-Identifier: Apache-2.0
"""Storms, deadlocks and background processes of a fabric, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hipsnet.topology import Topology
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.watchdog import WatchdogEvent

_COLUMNS = ("time", "event", "port", "priority", "culprit", "held up", "frames", "seconds")


def as_json(topology: Topology, recorded: Sequence[WatchdogEvent], snapshot: Snapshot) -> dict[str, Any]:
    """Everything as plain data; times in ISO 8601."""
    return {
        "fabric": topology.name,
        "watchdog": _watchdog(topology),
        "events": [_record(event) for event in recorded],
        "deadlocks": [asdict(deadlock) for deadlock in snapshot.deadlocks],
        "processes": [process.as_data() for process in snapshot.reading.processes],
    }


def parts(
    topology: Topology, recorded: Sequence[WatchdogEvent], snapshot: Snapshot
) -> Iterator[RenderableType]:
    """Background processes that are not running, the watchdog's settings, its events, the present deadlocks."""
    for process in snapshot.not_running:
        yield Text(process.report, style="bold red")
    watchdog = _watchdog(topology)
    if watchdog is None:
        yield f"{topology.name}: no watchdog (pfc.watchdog): storms are not detected"
    else:
        yield (
            f"{topology.name}: storms of {watchdog['detect_ms']} ms, restored after {watchdog['restore_ms']} ms"
            f" without a pause; action {watchdog['action']}"
        )
    if recorded:
        table = Table(*_COLUMNS)
        for event in recorded:
            table.add_row(*_row(event))
        yield table
    elif watchdog is not None:
        yield "no storm since soft switches and programs started"
    for deadlock in snapshot.deadlocks:
        yield f"[bold red]deadlock[/] {deadlock}"
    if not snapshot.deadlocks:
        yield "no deadlock now"


def _record(event: WatchdogEvent) -> dict[str, Any]:
    found = asdict(event) | {"time": event.time.isoformat()}
    del found["time_ns"]  # on a clock that the reader cannot read
    return found


def _row(event: WatchdogEvent) -> Iterator[str]:
    yield event.time.astimezone().strftime("%H:%M:%S.%f")[:-3]
    yield f"storm, {event.action}" if event.kind == "storm" else "restored"
    yield event.port
    yield str(event.priority)
    yield event.culprit
    yield ", ".join(event.senders)
    yield str(event.frames)
    yield f"{event.seconds:.2f}"


def _watchdog(topology: Topology) -> dict[str, Any] | None:
    watchdog = topology.pfc.watchdog if topology.pfc else None
    return watchdog.model_dump() if watchdog else None
