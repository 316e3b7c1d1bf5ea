# SPDX-License-Identifier: Apache-2.0
"""The table of predictions: the columns of `hipsnet run`, with the closed forms, at most 110 characters wide.

`time` is the simulated time, or the pipelined closed form if nothing was simulated; bandwidths are those of `time`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hipsnet.units import format_rate
from orchestrator.prediction.results import Prediction

Text = Callable[[Prediction], str]


@dataclass(frozen=True)
class Column:
    """A column: the two lines of its heading, its width, and the text of a prediction in it."""

    name: str
    unit: str
    width: int
    text: Text


def _us(value: Callable[[Prediction], float | None]) -> Text:
    def text(one: Prediction) -> str:
        found = value(one)
        return "-" if found is None else f"{found * 1e6:.1f}"

    return text


def _number(value: Callable[[Prediction], float | None], digits: int) -> Text:
    def text(one: Prediction) -> str:
        found = value(one)
        return "-" if found is None else f"{found:.{digits}f}"

    return text


def _of_limit(one: Prediction) -> float | None:
    return one.time_s / one.forms.limit_s if one.forms and one.time_s and one.forms.limit_s else None


def _of_time(one: Prediction) -> float | None:
    return one.measured_s / one.time_s if one.measured_s and one.time_s else None


_COLUMNS = (
    Column("algorithm", "", 9, lambda one: one.call.algorithm.name),
    Column("size", "(B)", 10, lambda one: str(one.call.bytes)),
    Column("type", "", 8, lambda one: one.dtype),
    Column("time", "(us)", 11, _us(lambda one: one.time_s)),
    Column("algbw", "(GB/s)", 8, _number(lambda one: one.algbw_GBps, 4)),
    Column("busbw", "(GB/s)", 8, _number(lambda one: one.busbw_GBps, 4)),
    Column("closed", "(us)", 11, _us(lambda one: one.forms.pipelined.total_s if one.forms else None)),
    Column("barrier", "(us)", 11, _us(lambda one: one.forms.barrier.total_s if one.forms else None)),
    Column("limit", "(us)", 11, _us(lambda one: one.forms.limit_s if one.forms else None)),
    Column("time", "/limit", 7, _number(_of_limit, 3)),
)
_MEASURED = (
    Column("measured", "(us)", 11, _us(lambda one: one.measured_s)),
    Column("meas.", "/time", 6, _number(_of_time, 3)),
)


def columns(has_measured: bool) -> tuple[Column, ...]:
    """The columns; those of measured times if there are any."""
    return (*_COLUMNS, *_MEASURED) if has_measured else _COLUMNS


def title(one: Prediction, is_simulated: bool) -> tuple[str, ...]:
    """The lines above the rows of a fabric."""
    shape = one.subject.shape
    ports = shape.ports_per_server
    how = "time: fluid simulation" if is_simulated else "time: pipelined closed form"
    return (
        f"# {one.subject.name}: {shape.title}, {math.prod(shape.radices)} servers with {ports} "
        f"port{'s' if ports > 1 else ''} at {format_rate(one.subject.rate_bps)}",
        f"# {how}; closed: pipelined; barrier: every step waits for the one before",
    )


def heading(table: Sequence[Column]) -> tuple[str, str]:
    """The two lines above the rows."""
    names = " ".join(f"{column.name:>{column.width}}" for column in table)
    units = " ".join(f"{column.unit:>{column.width}}" for column in table)
    return f"# {names}", f"# {units}"


def row(table: Sequence[Column], one: Prediction) -> str:
    """The line of a prediction."""
    return "  " + " ".join(f"{column.text(one):>{column.width}}" for column in table)
