# SPDX-License-Identifier: Apache-2.0
"""Show a running measurement: the rows of the table, and on a terminal a progress bar below them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hipsnet.units import approximate_size
from orchestrator.jobs.launch import Stream, Write
from orchestrator.jobs.measurement import Measurement
from orchestrator.jobs.results import Result
from orchestrator.jobs.table import columns, heading, row


class Display:
    """Shows a running measurement; open it by `with`. `results` holds the results so far."""

    def __init__(
        self, title: Sequence[str], measurement: Measurement, table: TextIO, message: Write, has_pauses: bool
    ) -> None:
        """The table is written to `table`; lines that the workers print on stderr are passed to `message`."""
        self.results: list[Result] = []
        self._columns = columns(has_pauses)
        self._title = title
        self._measurement = measurement
        self._table = table
        self._message = message
        self._rounds = measurement.warmup + measurement.iterations
        self._at = (0, 0)
        console = Console(file=sys.stderr)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,  # a thread of its own would be forked with the launcher
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=self._rounds * len(measurement.cases))

    def __enter__(self) -> Display:
        for line in (*self._title, *heading(self._columns)):
            self._print(line)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def progress(self, case: int, iterations: int) -> None:
        """Record that this many iterations of a case are done, including warm-up."""
        self._at = (case, iterations)
        size = approximate_size(self._measurement.size_bytes(case))
        self._bar.update(
            self._task, completed=case * self._rounds + iterations, description=size, refresh=True
        )

    def result(self, result: Result) -> None:
        """Add the result of a case."""
        self.results.append(result)
        self._at = (len(self.results), 0)
        with self._without_bar():
            self._print(row(self._columns, result))

    def message(self, program: int, stream: Stream, line: bytes) -> None:
        """Pass on a line that a worker printed on stderr."""
        with self._without_bar():
            self._message(program, stream, line)

    @property
    def position(self) -> str:
        """The progress in words: the present size, and its measured iterations."""
        case, done = self._at
        if case == len(self._measurement.cases):
            return "the end"
        size = approximate_size(self._measurement.size_bytes(case))
        counted = max(0, done - self._measurement.warmup)
        return f"{size}, iteration {counted} of {self._measurement.iterations}"

    def _print(self, line: str) -> None:
        print(line, file=self._table, flush=True)

    @contextmanager
    def _without_bar(self) -> Iterator[None]:
        self._bar.stop()
        yield
        self._bar.start()
