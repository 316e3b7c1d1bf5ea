"""Running a measuring job: the workers on their servers, their reports as they come, results case by case."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology
from orchestrator import job, output
from orchestrator.launch import Outcome, Stream, launch
from orchestrator.measurement import Measurement
from orchestrator.results import Result, combine

Limit = Callable[[int], float | None]
"""Takes the bytes of a case, gives the physical limit in seconds, or None where a port has no rate."""


def measure(
    topology: Topology,
    fabric: Fabric,
    settings: Settings,
    measurement: Measurement,
    limit: Limit,
    on_progress: Callable[[int, int], None],
    on_result: Callable[[Result], None],
) -> Outcome:
    """Measure all cases on every server of the lab.

    `on_progress(case, iterations done, warm-up included)` and `on_result` are called as the job goes. Raises
    what `job.programs` and `launch` raise. What the workers print on stderr goes to ours, behind their names.
    """
    command = (sys.executable, "-m", "orchestrator.worker", measurement.to_text())
    programs = job.programs(topology, fabric, settings, command)
    told: dict[int, list[dict[str, Any]]] = {}
    show = output.prefixed([program.server for program in programs])

    def hear(program: int, stream: Stream, line: bytes) -> None:
        if stream == "stderr":
            show(program, stream, line)
            return
        report = json.loads(line)
        case = report["case"]
        if "done" in report:
            on_progress(case, report["done"])
            return
        reports = told.setdefault(case, [])
        reports.append(report)
        if len(reports) == len(programs):
            size = sum(measurement.cases[case].counts) * measurement.item_bytes
            on_result(combine(measurement, case, told.pop(case), limit(size)))

    return launch(programs, hear)
