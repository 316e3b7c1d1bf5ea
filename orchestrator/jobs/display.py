# SPDX-License-Identifier: Apache-2.0
"""Showing a measurement while it runs: the table's lines as they come, and a bar below them on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from hipsnet.units import approximate_size
from orchestrator.jobs.launch import Stream, Write
from orchestrator.jobs.measurement import Measurement
from orchestrator.jobs.results import HEADER, Result, row


class Display:
    """Hears what a measurement tells, and shows it; open it by `with`. `results` holds what has come in."""

    def __init__(self, title: str, measurement: Measurement, table: TextIO, message: Write) -> None:
        """The table's lines go to `table`, what the workers print on stderr goes to `message`."""
        self.results: list[Result] = []
        self._title = title
        self._measurement = measurement
        self._table = table
        self._message = message
        self._rounds = measurement.warmup + measurement.iterations
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
        self._print(self._title)
        self._print(HEADER)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def progress(self, case: int, iterations: int) -> None:
        """So many iterations of a case are done, those to warm up included."""
        size = approximate_size(self._measurement.size_bytes(case))
        self._bar.update(
            self._task, completed=case * self._rounds + iterations, description=size, refresh=True
        )

    def result(self, result: Result) -> None:
        """A case is done."""
        self.results.append(result)
        with self._without_bar():
            self._print(row(result))

    def message(self, program: int, stream: Stream, line: bytes) -> None:
        """A worker has something to say."""
        with self._without_bar():
            self._message(program, stream, line)

    def _print(self, line: str) -> None:
        print(line, file=self._table, flush=True)

    @contextmanager
    def _without_bar(self) -> Iterator[None]:
        self._bar.stop()
        yield
        self._bar.start()
