# SPDX-License-Identifier: Apache-2.0
"""A run of pytest elsewhere, beside this one, and its reports for the tests out here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from _pytest.runner import pytest_runtest_teardown as tear_down

from hipsnet.errors import CapabilityError
from tools.virtual_machine.machine import Stream

REPOSITORY = Path(__file__).resolve().parents[1]
_TOLD_BYTES = 4000
_POLL_S = 0.1
_END_S = 60.0

Outputs = Iterator[tuple[Stream, bytes]]


def running(nodeids: Sequence[str]) -> list[str]:
    """Pytest on these tests, telling what comes of them as tests.reporting does."""
    return [
        # Plugins that nobody needs there take seconds to import on an emulated processor.
        *("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest"),
        *("-p", "pytest_timeout", "-p", "tests.reporting", "-p", "no:terminal", "-p", "no:cacheprovider"),
        *("-o", "addopts=--strict-markers --import-mode=importlib"),
        *nodeids,
    ]


def outputs_of(command: Sequence[str]) -> Outputs:
    """What a process says, which begins with the first piece and ends with the last, or with us, however we end.

    It is asked to end by SIGTERM, and has a minute to take down what it has built.
    """
    command = ["setpriv", "--pdeathsig", "TERM", *command]
    with TemporaryFile() as out, TemporaryFile() as err:  # pipes would be full before somebody listens
        process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0
        )
        try:
            yield "stderr", b""
            yield from _written(process, {"stdout": out.fileno(), "stderr": err.fileno()})
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    yield "stderr", f"the process ended with {process.returncode}\n".encode()


def _written(process: subprocess.Popen[bytes], files: dict[Stream, int]) -> Outputs:
    """What comes into these files as long as the process lives."""
    taken = dict.fromkeys(files, 0)
    has_ended = False
    while not has_ended:
        has_ended = process.poll() is not None
        for stream, file in files.items():
            while data := os.pread(file, 1 << 16, taken[stream]):
                taken[stream] += len(data)
                yield stream, data
        if not has_ended:
            time.sleep(_POLL_S)


def run_remotely(
    session: pytest.Session, items: Sequence[pytest.Item], begin: Callable[[Sequence[str]], Outputs]
) -> None:
    """Begin a run of these tests of the session elsewhere, and let its reports stand for them here."""
    if not items or session.config.option.collectonly or session.testsfailed:
        return
    for item in items:  # timed in there, and waited for
        item.add_marker(pytest.mark.timeout(0), append=False)
    nodeids = [item.nodeid for item in items]
    there = RemoteRun(session.config, nodeids, begin(nodeids))
    session.config.pluginmanager.register(there)
    there.begin()


class RemoteRun:
    """A pytest plugin: the reports of these tests, each as soon as it has ended in there."""

    def __init__(self, config: pytest.Config, nodeids: Sequence[str], outputs: Outputs) -> None:
        self._config = config
        self._wanted = set(nodeids)
        self._outputs = outputs
        self._reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
        self._finished: set[str] = set()
        self._running = ""
        self._line = self._told = b""
        self._end: str | None = None
        self._lacking: str | None = None

    def begin(self) -> None:
        """Have the tests begin, if they have not."""
        self._advance()

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Report a test of there as if it had run here."""
        if item.nodeid not in self._wanted:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self.reports(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # Nothing of this test was set up here, but what was for the one before has to go now.
        tear_down(item, nextitem)
        return True

    def pytest_sessionfinish(self) -> None:
        """End the run."""
        self._outputs.close()  # type: ignore[attr-defined]

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        """The reports of one test, waited for; one of our own making if none comes."""
        while not (item.nodeid in self._finished or self._end or self._lacking):
            self._advance()
        if item.nodeid in self._finished:
            return self._reports[item.nodeid]
        if self._lacking:
            path, line, _ = item.location
            reason: Any = (path, (line or 0) + 1, f"Skipped: {self._lacking}")
            return [_report(item, "skipped", reason)]
        while_running = " while this test ran" if self._running == item.nodeid else ""
        told = self._told.decode(errors="replace").strip()
        said = f"; it said:\n{told}" if told else ""
        return [_report(item, "failed", f"no report of this test: {self._end}{while_running}{said}")]

    def _advance(self) -> None:
        """Take one piece of output; its end is the end of the run."""
        try:
            stream, data = next(self._outputs)
        except StopIteration:
            self._end = "the run ended"
        except CapabilityError as error:
            self._lacking = str(error)
        else:
            self._take(stream, data)

    def _take(self, stream: Stream, data: bytes) -> None:
        if stream == "stderr":
            self._tell(data)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                self._tell(line + b"\n")
            else:
                self._understand(told)
                if self._end:
                    return

    def _understand(self, told: Any) -> None:
        match told:
            case {"collected": nodeids}:
                self._compare(nodeids)
            case {"broken": why}:
                self._tell(f"{why}\n".encode())
            case {"started": nodeid}:
                self._running = nodeid
            case {"report": data}:
                report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
                self._reports[report.nodeid].append(report)
            case {"finished": nodeid}:
                self._finished.add(nodeid)
                self._running = ""

    def _tell(self, words: bytes) -> None:
        self._told = (self._told + words)[-_TOLD_BYTES:]

    def _compare(self, nodeids: list[str]) -> None:
        """There must run what was collected here, neither more nor less."""
        if sorted(nodeids) != sorted(self._wanted):
            odd = ", ".join(sorted(self._wanted.symmetric_difference(nodeids)))
            self._end = f"{len(self._wanted)} tests wanted, {len(nodeids)} collected there: {odd}"


def _report(item: pytest.Item, outcome: Any, longrepr: Any) -> pytest.TestReport:
    when: Any = "setup" if outcome == "skipped" else "call"
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, longrepr, when)
