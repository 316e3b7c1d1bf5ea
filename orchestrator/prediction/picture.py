# SPDX-License-Identifier: Apache-2.0
"""The picture of predictions: times over sizes, or side by side where there is one size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from hipsnet.errors import InputError
from hipsnet.units import approximate_size
from orchestrator.prediction.results import Prediction
from orchestrator.views.figures import INK, figure

ENDINGS = (".svg", ".pdf", ".png")
_COLOURS = ("#2563eb", "#f59e0b", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d", "#dc2626")


def require_ending(output: Path) -> None:
    """Raise InputError for a format that cannot be drawn."""
    if output.suffix.lower() not in ENDINGS:
        raise InputError(f"-o: found {output}; allowed endings: {', '.join(ENDINGS)}")


def draw(output: Path, predictions: Sequence[Prediction]) -> None:
    """Write the picture."""
    series = [list(group) for _, group in groupby(predictions, key=_series)]
    has_sizes = max(len(group) for group in series) > 1
    with figure(output, (8.0, 5.0 if has_sizes else 1.2 + 0.5 * len(series))) as drawn:
        axes = drawn.add_subplot()
        (_lines if has_sizes else _bars)(axes, series)
        axes.tick_params(colors=INK)
        drawn.tight_layout()


def _series(one: Prediction) -> tuple[str, str]:
    return one.subject.name, one.call.algorithm.name


def _label(group: Sequence[Prediction]) -> str:
    return f"{group[0].call.algorithm.name}, {group[0].subject.shape.title}"


def _lines(axes: Any, series: Sequence[Sequence[Prediction]]) -> None:
    for number, group in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        known = [one for one in group if one.time_s]
        axes.plot(
            [one.call.bytes for one in known],
            [one.time_s for one in known],
            color=colour,
            label=_label(group),
        )
        if measured := [one for one in group if one.measured_s]:
            axes.plot(
                [one.call.bytes for one in measured], [one.measured_s for one in measured], "o", color=colour,
                label=f"{_label(group)}, measured",
            )  # fmt: skip
        limits = [one for one in group if one.forms]
        axes.plot(
            [one.call.bytes for one in limits], [one.forms.limit_s for one in limits if one.forms],
            color=colour, linewidth=0.8, linestyle=":",
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted({one.call.bytes for group in series for one in group})
    axes.set_xticks(sizes, [approximate_size(size) for size in sizes], rotation=45)
    axes.set_ylabel("time (s); dotted: physical limit")
    axes.legend(frameon=False, fontsize="small")


def _bars(axes: Any, series: Sequence[Sequence[Prediction]]) -> None:
    rows = [group[0] for group in series]
    for number, one in enumerate(rows):
        axes.barh(number, one.time_s or 0, color=_COLOURS[number % len(_COLOURS)])
        if one.forms:
            axes.plot([one.forms.limit_s] * 2, [number - 0.4, number + 0.4], color=INK)
        if one.measured_s:
            axes.plot([one.measured_s], [number], "o", color=INK)
    axes.set_yticks(range(len(rows)), [_label([one]) for one in rows])
    axes.invert_yaxis()
    axes.set_xlabel(
        f"time (s) of {approximate_size(rows[0].call.bytes)}; line: physical limit; dot: measured"
    )
