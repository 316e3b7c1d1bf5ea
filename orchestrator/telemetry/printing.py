# SPDX-License-Identifier: Apache-2.0
"""One interval for scripts: as a table, as JSON, as CSV. The names of the numbers are those of `Sample`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestrator.telemetry.fields import FIELDS
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.sample import RATE_NAMES, Sample, totals

_HEADINGS = (
    "pause/s rx", "tx", "pause % rx", "tx", "bit/s rx", "tx", "frames/s rx", "tx", "drops/s", "ECN/s", "buffer %",
)  # fmt: skip
_WIDTH = 160


def as_json(snapshot: Snapshot) -> None:
    """One document: the samples, who pauses whom, deadlocks, what has happened."""
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
    """A line for each sample; what nobody counts is empty."""
    totals = [field.name for field in FIELDS]
    headings = [field.name if field.is_gauge else f"{field.name}_total" for field in FIELDS]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["port", "peer", "priority", "up", *RATE_NAMES, *headings])
    for record in _records(snapshot):
        head = [record["port"], record["peer"], record["priority"], int(record["up"])]
        rates = [record[name] for name in RATE_NAMES]
        writer.writerow([*head, *rates, *(record["total"].get(name) for name in totals)])


def as_table(snapshot: Snapshot) -> None:
    """Every sample on a line, for the reader."""
    table = Table(title=f"{snapshot.ports.fabric.name}: {snapshot.rates.seconds:.2f} s", title_justify="left")
    for heading in ("port", "pr", "peer", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for record in _records(snapshot):
        values = [_cell(record[name], name.endswith("share"), name in record["whole"]) for name in RATE_NAMES]
        priority = "*" if record["priority"] is None else str(record["priority"])
        table.add_row(record["port"], priority, record["peer"], "up" if record["up"] else "down", *values)
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=_WIDTH)
    for process in snapshot.not_running:
        console.print(process.report, style="bold red", markup=False, soft_wrap=True)
    console.print(table)


def _records(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    for number, priority in snapshot.priorities().tolist():
        yield _record(snapshot, snapshot.sample(number, priority), priority)


def _record(snapshot: Snapshot, found: Sample, priority: int) -> dict[str, Any]:
    port = snapshot.ports.ports[found.port]
    storm = found.priority is not None and bool(snapshot.storms[found.port, found.priority])
    return {
        "port": port.name,
        "peer": port.peer_name,
        "priority": found.priority,
        "up": bool(snapshot.reading.up[found.port]),
        "storm": storm,
        **{name: getattr(found, name) for name in RATE_NAMES},
        "whole": sorted(found.whole),
        "total": totals(snapshot.reading, found.port, priority),
    }


def _cell(value: float | None, is_share: bool, is_whole: bool) -> str:
    if value is None:
        return "-"
    text = f"{100 * value:.1f}" if is_share else f"{value:.0f}"
    return text + ("*" if is_whole else "")
