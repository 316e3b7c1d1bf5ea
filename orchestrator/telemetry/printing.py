# SPDX-License-Identifier: Apache-2.0
"""One interval for scripts, as a table, JSON or CSV. The numbers have the names of `Sample`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestrator.telemetry.fields import ALL, FIELDS
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.sample import RATE_NAMES, totals

_HEADINGS = (
    "pause/s rx", "tx", "pause % rx", "tx", "bit/s rx", "tx", "frames/s rx", "tx", "drops/s", "ECN/s", "buffer %",
)  # fmt: skip
_WIDTH = 160


def as_json(snapshot: Snapshot) -> None:
    """One document: samples, background processes, pauses, deadlocks, events."""
    document = {
        "fabric": snapshot.ports.fabric.name,
        "seconds": snapshot.rates.seconds,
        "samples": list(_records(snapshot)),
        "pauses": [
            {
                "culprit": pause.by,
                "victim": pause.of,
                "priority": pause.priority,
                "frames_per_s": pause.frames_per_s,
                "share": pause.share,
                "begins_at": list(pause.roots),
                "queues": list(pause.queues),
            }
            for pause in snapshot.pauses
        ],
        "processes": [process.as_data() for process in snapshot.reading.processes],
        "deadlocks": [vars(deadlock) for deadlock in snapshot.deadlocks],
        "events": [vars(event) for event in snapshot.events],
    }
    print(json.dumps(document, indent=2))


def as_csv(snapshot: Snapshot) -> None:
    """A line for each sample; a number without a counter is empty."""
    totals = [field.name for field in FIELDS]
    headings = [field.name if field.is_gauge else f"{field.name}_total" for field in FIELDS]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["port", "peer", "priority", "up", *RATE_NAMES, *headings])
    for record in _records(snapshot):
        head = [record["port"], record["peer"], record["priority"], int(record["up"])]
        rates = [record[name] for name in RATE_NAMES]
        writer.writerow([*head, *rates, *(record["total"].get(name) for name in totals)])


def as_table(snapshot: Snapshot) -> None:
    """A line for each port and priority; `*` marks a number of the whole port."""
    table = Table(title=f"{snapshot.ports.fabric.name}: {snapshot.rates.seconds:.2f} s", title_justify="left")
    for heading in ("port", "pr", "peer", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, priority in snapshot.priorities().tolist():
        port, found = snapshot.ports.ports[number], snapshot.sample(number, priority)
        values = (
            _cell(getattr(found, name), name.endswith("share"), name in found.port_wide)
            for name in RATE_NAMES
        )
        state = "up" if snapshot.reading.up[number] else "down"
        table.add_row(port.name, "*" if priority == ALL else str(priority), port.peer_name, state, *values)
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    for process in snapshot.not_running:
        console.print(process.report, style="bold red", markup=False, soft_wrap=True)
    console.print(table)


def _records(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """The priorities of each port, then the port with the values that are counted for the whole port only.

    A number is in one record, so that a sum counts nothing twice.
    """
    rows = snapshot.priorities().tolist()
    for port, lines in groupby(rows, key=lambda row: int(row[0])):
        by_priority: set[str] = set()
        for priority in (priority for _, priority in lines if priority != ALL):
            found = snapshot.sample(port, priority)
            own = {name: None if name in found.port_wide else getattr(found, name) for name in RATE_NAMES}
            by_priority |= {name for name, value in own.items() if value is not None}
            yield _record(snapshot, port, priority, own)
        whole = snapshot.sample(port, ALL)
        rates = {name: None if name in by_priority else getattr(whole, name) for name in RATE_NAMES}
        yield _record(snapshot, port, ALL, rates)


def _record(snapshot: Snapshot, number: int, priority: int, rates: dict[str, float | None]) -> dict[str, Any]:
    port = snapshot.ports.ports[number]
    return {
        "port": port.name,
        "peer": port.peer_name,
        "priority": None if priority == ALL else priority,
        "up": bool(snapshot.reading.up[number]),
        "storm": priority != ALL and bool(snapshot.storms[number, priority]),
        **rates,
        "total": totals(snapshot.reading, number, priority),
    }


def _cell(value: float | None, is_share: bool, is_port_wide: bool) -> str:
    if value is None:
        return "-"
    text = f"{100 * value:.1f}" if is_share else f"{value:.0f}"
    return text + ("*" if is_port_wide else "")
