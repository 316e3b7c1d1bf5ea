# SPDX-License-Identifier: Apache-2.0
"""A progress bar on standard error that appears when something has taken two seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from orchestrator.prediction.results import Progress as Report

PATIENCE_S = 2.0


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress, self._since = progress, monotonic()
        self._task = progress.add_task("", total=None)

    def report(self, label: str, done: int, total: int) -> None:
        """Show that `done` of `total` are done."""
        if monotonic() - self._since >= PATIENCE_S:
            self._progress.start()
            self._progress.update(self._task, description=label, completed=done, total=total, refresh=True)

    def clear(self) -> None:
        """Remove the bar, so that lines can be printed; it appears again after two seconds."""
        self._progress.stop()
        self._since = monotonic()


@contextmanager
def bar() -> Iterator[tuple[Report, _Bar]]:
    """The function that reports progress, and the bar; nothing is shown if standard error is not a terminal."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    progress = Progress(
        *columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal
    )
    shown = _Bar(progress)
    try:
        yield shown.report, shown
    finally:
        progress.stop()
