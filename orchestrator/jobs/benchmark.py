# SPDX-License-Identifier: Apache-2.0
"""Running a measuring job: the workers on their servers, their reports as they come, results case by case."""

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
from orchestrator.jobs.measurement import Measurement
from orchestrator.jobs.results import Result, combine
from orchestrator.lab.account import Account
from orchestrator.telemetry.job_pauses import JobPauses

Limit = Callable[[int], float | None]
"""Takes the bytes of a case, gives the physical limit in seconds, or None where a port has no rate."""


class Listener(Protocol):
    """Is told what a measurement does, as it goes: a `Display`."""

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
    pauses: Callable[[], JobPauses],
    listener: Listener,
    options: LaunchOptions = DEFAULTS,
) -> Outcome:
    """Run the workers, and tell the listener what they tell. Raises what `launch` raises.

    `pauses` tells what has come since it was asked the last time; it is asked when all ranks have told of a
    case, while they wait for one another to begin with the next.
    """
    told: dict[int, list[dict[str, Any]]] = {}

    def hear(program: int, stream: Stream, line: bytes) -> None:
        if stream == "stderr":
            listener.message(program, stream, line)
            return
        report = json.loads(line)
        case = report["case"]
        if "done" in report:
            listener.progress(case, report["done"])
            return
        reports = told.setdefault(case, [])
        reports.append(report)
        if len(reports) == len(programs):
            limit_s = limit(measurement.size_bytes(case))
            listener.result(combine(measurement, case, told.pop(case), limit_s, pauses()))

    return launch(programs, hear, replace(options, line_limit=sys.maxsize))  # a report is one line
