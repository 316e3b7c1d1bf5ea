# SPDX-License-Identifier: Apache-2.0
"""Running a measuring job: starts the workers and combines their reports into results, case by case."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology
from orchestrator.jobs import job
from orchestrator.jobs.guard import Program
from orchestrator.jobs.launch import DEFAULTS, LaunchOptions, Outcome, Stream, launch
from orchestrator.jobs.measurement import Case, Measurement
from orchestrator.jobs.results import Result, combine
from orchestrator.lab.account import Account
from orchestrator.telemetry.job_pauses import JobPauses

Limit = Callable[[int], float | None]
"""From the bytes of a case to the physical limit in seconds; None where a port has no rate."""
Chosen = Callable[[Case], str]
"""From a case to the name of the algorithm that runs it."""


class Listener(Protocol):
    """Receives the progress and the results of a measurement: a `Display`."""

    def progress(self, case: int, iterations: int) -> None: ...

    def result(self, result: Result) -> None: ...

    def message(self, program: int, stream: Stream, line: bytes) -> None: ...


def workers(
    topology: Topology,
    fabric: Fabric,
    settings: Settings,
    measurement: Measurement,
    account: Account | None = None,
) -> tuple[Program, ...]:
    """The measuring programs, one for every server. Raises what `job.programs` raises."""
    command = (sys.executable, "-m", "orchestrator.jobs.worker", measurement.to_text())
    return job.programs(topology, fabric, settings, command, account)


def measure(
    programs: Sequence[Program],
    measurement: Measurement,
    limit: Limit,
    chosen: Chosen,
    pauses: Callable[[], JobPauses],
    listener: Listener,
    options: LaunchOptions = DEFAULTS,
) -> Outcome:
    """Run the workers and pass their progress and results to the listener. Raises what `launch` raises.

    `pauses` returns the pauses since its last call. It is called when all ranks have reported a case, while they
    wait for each other to begin the next one.
    """
    reports_by_case: dict[int, list[dict[str, Any]]] = {}

    def take(program: int, stream: Stream, line: bytes) -> None:
        if stream == "stderr":
            listener.message(program, stream, line)
            return
        report = json.loads(line)
        case = report["case"]
        if "done" in report:
            listener.progress(case, report["done"])
            return
        reports = reports_by_case.setdefault(case, [])
        reports.append(report)
        if len(reports) == len(programs):
            limit_s = limit(measurement.size_bytes(case))
            name = chosen(measurement.cases[case])
            done = reports_by_case.pop(case)
            listener.result(combine(measurement, case, done, limit_s, name, pauses()))

    return launch(programs, take, replace(options, line_limit=sys.maxsize))  # a report is one line
