# SPDX-License-Identifier: Apache-2.0
"""Predictions, one for each fabric, algorithm and size: computed in order, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from hipsnet.predict.bounds import TooLarge
from hipsnet.predict.prediction import Call, Forms, Subject, closed_forms, fluid_s
from orchestrator.jobs.measurement import Case
from orchestrator.prediction.asked import ALL, Options
from orchestrator.prediction.measured import Measured

Progress = Callable[[str, int, int], None]
"""Gets what is being simulated, the segments done, and all of them."""


@dataclass(frozen=True)
class Prediction:
    """A row of the table; `note` says why a time is missing, or what was counted."""

    subject: Subject
    case: Case
    dtype: str
    call: Call
    forms: Forms | None
    fluid_s: float | None
    measured_s: float | None
    note: str = ""

    @property
    def time_s(self) -> float | None:
        """The best prediction: by simulation, else pipelined."""
        if self.fluid_s is not None:
            return self.fluid_s
        return self.forms.pipelined.total_s if self.forms else None

    @property
    def algbw_GBps(self) -> float | None:
        """Bytes over time."""
        return self.call.bytes / self.time_s / 1e9 if self.time_s else None

    @property
    def busbw_GBps(self) -> float | None:
        """`algbw_GBps` times 2(N-1)/N, as in nccl-tests."""
        servers = math.prod(self.subject.shape.radices)
        return self.algbw_GBps * 2 * (servers - 1) / servers if self.algbw_GBps else None


def predicted(
    subject: Subject,
    calls: Sequence[tuple[Case, Call]],
    options: Options,
    measured: Sequence[Measured],
    progress: Progress,
) -> Iterator[Prediction]:
    """Yield the predictions one by one; one that is too large has a note instead if others were asked for, too.

    Raises InputError for conditions that do not fit the fabric.
    """
    may_lack = options.algorithm == ALL
    conditions = options.conditions(subject)
    for case, call in calls:
        report = partial(progress, f"{call.algorithm.name} on {subject.name}")
        found = (one.time_s(subject, call.algorithm.name, call.bytes, case.model) for one in measured)
        forms, fluid, notes = None, None, []
        try:
            forms = closed_forms(subject, call, options.constants())
            if forms.by_routes:
                notes.append("the closed form follows the routes")
            fluid = fluid_s(subject, call, conditions, report) if options.fluid else None
        except TooLarge as error:
            if not may_lack:
                raise
            notes.append(str(error))
        measured_s = next((time_s for time_s in found if time_s is not None), None)
        yield Prediction(subject, case, options.dtype, call, forms, fluid, measured_s, "; ".join(notes))


def document(options: Options, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Everything for `--json`: times in seconds, rates in bit/s, sizes in bytes."""
    return {"options": asdict(options), "results": [_entry(one) for one in predictions]}


def _entry(one: Prediction) -> dict[str, Any]:
    shape, forms, time_s = one.subject.shape, one.forms, one.fluid_s
    return {
        "fabric": one.subject.name,
        "kind": shape.kind,
        "title": shape.title,
        "servers": math.prod(shape.radices),
        "ports_per_server": shape.ports_per_server,
        "rate_bps": one.subject.rate_bps,
        "algorithm": one.call.algorithm.name,
        "exchange": list(one.call.algorithm.exchange),
        "one_way": one.call.algorithm.one_way,
        "bytes": one.call.bytes,
        "count": sum(one.call.counts),
        "dtype": one.dtype,
        "model": one.case.model,
        "limit_s": forms.limit_s if forms else None,
        "closed_s": forms.pipelined.total_s if forms else None,
        "barrier_s": forms.barrier.total_s if forms else None,
        "fluid_s": time_s,
        "terms": asdict(forms.barrier) if forms else None,
        "steps": forms.steps if forms else None,
        "messages": forms.messages if forms else None,
        "incast": forms.incast if forms else None,
        "port_bytes": forms.port_bytes if forms else None,
        "by_routes": forms.by_routes if forms else None,
        "algbw_GBps": one.algbw_GBps,
        "busbw_GBps": one.busbw_GBps,
        "measured_s": one.measured_s,
        "measured_ratio": one.measured_s / one.time_s if one.measured_s and one.time_s else None,
        "note": one.note,
    }
