# SPDX-License-Identifier: Apache-2.0
"""The results of threshold trials: a table, a picture, and the YAML of the best setting."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

from hipsnet.topology import Topology
from hipsnet.units import format_rate
from orchestrator.pfc.tuning import Setting, Trial, best, flaw, is_good, shown_xoff, size
from orchestrator.views.figures import INK, figure

_COLUMNS = (
    "",
    "XOFF",
    "XON",
    "ECN",
    "goodput",
    "sync",
    "lost",
    "marks",
    "paused:\nincast",
    "\nsync",
    "\nboth",
)
_INCAST, _PROBE, _PALE = "#2563eb", "#f59e0b", 0.35


@contextmanager
def progress(total: int) -> Iterator[Callable[[Trial], None]]:
    """A progress bar on standard error while the trials run."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # No thread of its own: it would be forked with the launcher.
    with Progress(*columns, console=Console(file=sys.stderr), auto_refresh=False, transient=True) as bar:
        task = bar.add_task("trials", total=total)
        bar.refresh()
        yield lambda _: bar.update(task, advance=1, refresh=True)


def as_json(topology: Topology, document: Mapping[str, Any], trials: Sequence[Trial]) -> dict[str, Any]:
    """All trials as plain data, and the best for the file of that content; sizes in bytes, times in seconds."""
    chosen = best(trials)
    return {
        "fabric": topology.name,
        "trials": [
            asdict(trial)
            | {"pause_s": trial.pause_s, "good": is_good(trial, trials), "flaw": flaw(trial, trials)}
            for trial in trials
        ],
        "best": None if chosen is None else asdict(chosen.setting),
        "yaml": None if chosen is None else paste(document, chosen.setting),
    }


def paste(document: Mapping[str, Any], setting: Setting) -> str:
    """The sections `roce` and `pfc` of the file, whole, with the setting in them: to stand in place of its own."""
    applied = setting.applied(document)
    return yaml.safe_dump({section: applied[section] for section in ("roce", "pfc")}, sort_keys=False)


def parts(
    topology: Topology, document: Mapping[str, Any], trials: Sequence[Trial]
) -> Iterator[RenderableType]:
    """The table of trials, and the proposal."""
    chosen = best(trials)
    table = Table(
        title=f"{topology.name} at {format_rate(topology.link.rate_bps)}: an incast, and HiPS all-reduces"
    )
    for number, column in enumerate(_COLUMNS):
        table.add_column(column, justify="left" if number < 4 else "right", no_wrap=True)
    for trial in trials:
        style = "bold green" if trial is chosen else "" if is_good(trial, trials) else "dim"
        names = ("file" if trial.is_present else "", "best" if trial is chosen else flaw(trial, trials))
        verdict = ", ".join(filter(None, names))
        table.add_row(verdict, *_row(topology, trial), style=style)
    yield table
    if chosen is None:
        yield "no setting avoids losses at full goodput and in time; the fabric is unchanged"
        return
    if chosen.is_present:
        yield "no setting is better than the file's own by more than chance"
        return
    saved = next(trial for trial in trials if trial.is_present).pause_s - chosen.pause_s
    yield f"no losses, full goodput, {saved:.2f} s less pause time than with the file's setting; replace that by:"
    yield Syntax(paste(document, chosen.setting).rstrip(), "yaml", background_color="default")


def draw(topology: Topology, trials: Sequence[Trial], output: Path) -> None:
    """Write the picture: pause times and results of all trials."""
    from matplotlib.patches import Patch

    with figure(output, (10.0, 1.5 + 0.3 * len(trials))) as drawn:
        drawn.set_layout_engine("constrained")
        left, middle, right = drawn.subplots(1, 3, sharey=True, width_ratios=(3, 1.3, 1.3))
        _bars(left, topology, trials)
        _dots(middle, trials, [trial.goodput_bps / 1e6 for trial in trials], "incast (Mbit/s)")
        _dots(right, trials, [trial.probe_s * 1e3 for trial in trials], "HiPS all-reduce (ms)")
        kinds = [Patch(color=_INCAST, label="in an incast"), Patch(color=_PROBE, label="in HiPS")]
        drawn.legend(handles=kinds, loc="outside upper right", ncols=2, fontsize=8, frameon=False)


def _bars(axes: Any, topology: Topology, trials: Sequence[Trial]) -> None:
    chosen = best(trials)
    for place, trial in enumerate(trials):
        strength = 1.0 if is_good(trial, trials) else _PALE
        axes.barh(place, trial.incast_pause_s, color=_INCAST, alpha=strength)
        axes.barh(place, trial.probe_pause_s, left=trial.incast_pause_s, color=_PROBE, alpha=strength)
    axes.set_yticks(range(len(trials)), [_name(topology, trial) for trial in trials], fontsize=8, color=INK)
    for label, trial in zip(axes.get_yticklabels(), trials, strict=True):
        label.set_fontweight("bold" if trial is chosen else "normal")
    axes.invert_yaxis()
    axes.set_xlabel("ports stopped (s)", fontsize=9, color=INK)
    axes.set_title("pale: lost frames, or slower; bold: the best", fontsize=9, color=INK, loc="left")
    _quiet(axes)


def _dots(axes: Any, trials: Sequence[Trial], values: Sequence[float], label: str) -> None:
    strengths = [1.0 if is_good(trial, trials) else _PALE for trial in trials]
    axes.scatter(values, range(len(trials)), color=INK, alpha=strengths, s=22, zorder=3)
    axes.set_xlim(0, 1.1 * max(values))
    axes.set_xlabel(label, fontsize=9, color=INK)
    axes.grid(axis="y", color="#e2e8f0", linewidth=0.6)
    _quiet(axes)


def _quiet(axes: Any) -> None:
    axes.tick_params(labelsize=8, colors=INK, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _name(topology: Topology, trial: Trial) -> str:
    setting = trial.setting
    xon = f", XON {size(setting.xon)}" if setting.xon else ""
    here = "file: " if trial.is_present else ""
    return f"{here}XOFF {shown_xoff(topology, setting)}{xon}, ECN {_ecn(setting)}"


def _ecn(setting: Setting) -> str:
    return "off" if setting.kmax is None else f"{size(setting.kmin or 0)}-{size(setting.kmax)}"


def _row(topology: Topology, trial: Trial) -> Iterator[str]:
    setting = trial.setting
    yield shown_xoff(topology, setting)
    yield size(setting.xon) if setting.xon else "derived"
    yield _ecn(setting)
    yield format_rate(round(trial.goodput_bps / 1e5) * 100_000)
    yield f"{trial.probe_s * 1e3:.1f} ms"
    yield str(trial.lost)
    yield str(trial.marks)
    yield f"{trial.incast_pause_s:.2f} s"
    yield f"{trial.probe_pause_s:.2f} s"
    yield f"{trial.pause_s:.2f} s"
