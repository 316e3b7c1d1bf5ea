# SPDX-License-Identifier: Apache-2.0
"""Run selected tests in a second pytest process, possibly in a virtual machine, and report them in this session.

The second process loads `tests.reporting`, which writes one JSON message per line to its standard output. RemoteRun
reads these messages and replays the test reports in place of the tests.
"""

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
_LOG_BYTES = 4000
_POLL_S = 0.1
_TERMINATE_S = 60.0

Outputs = Iterator[tuple[Stream, bytes]]


def remote_command(nodeids: Sequence[str]) -> list[str]:
    """The command that runs these tests and reports them as tests.reporting does."""
    return [
        # Each plugin takes seconds to import on an emulated processor; only the timeouts are needed.
        *("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest"),
        *("-p", "pytest_timeout", "-p", "tests.reporting", "-p", "no:terminal", "-p", "no:cacheprovider"),
        *("-o", "addopts=--strict-markers --import-mode=importlib"),
        *nodeids,
    ]


def read_outputs(command: Sequence[str]) -> Outputs:
    """Start the process when the first piece is requested, and yield what it writes until it ends.

    Closing the iterator sends SIGTERM and waits a minute, in which the process removes what it has built. The
    kernel sends the same signal if this process is killed.
    """
    command = ["setpriv", "--pdeathsig", "TERM", *command]
    with TemporaryFile() as out, TemporaryFile() as err:  # a pipe would fill up while nothing reads it
        process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0
        )
        try:
            yield "stderr", b""
            yield from _follow(process, {"stdout": out.fileno(), "stderr": err.fileno()})
        finally:
            process.terminate()
            try:
                process.wait(_TERMINATE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    yield "stderr", f"the process ended with exit code {process.returncode}\n".encode()


def _follow(process: subprocess.Popen[bytes], files: dict[Stream, int]) -> Outputs:
    """What the process appends to these files until it ends."""
    offsets = dict.fromkeys(files, 0)
    has_ended = False
    while not has_ended:
        has_ended = process.poll() is not None
        for stream, file in files.items():
            while data := os.pread(file, 1 << 16, offsets[stream]):
                offsets[stream] += len(data)
                yield stream, data
        if not has_ended:
            time.sleep(_POLL_S)


def run_remotely(
    session: pytest.Session, items: Sequence[pytest.Item], start: Callable[[Sequence[str]], Outputs]
) -> None:
    """Start a remote run of these items of the session; its reports replace theirs. `start` gets their node ids."""
    if not items or session.config.option.collectonly or session.testsfailed:
        return
    for item in items:  # the remote process enforces the timeouts
        item.add_marker(pytest.mark.timeout(0), append=False)
    nodeids = [item.nodeid for item in items]
    run = RemoteRun(session.config, nodeids, start(nodeids))
    session.config.pluginmanager.register(run)
    run.start()


class RemoteRun:
    """A pytest plugin that reports tests of another process, each as soon as that process has finished it."""

    def __init__(self, config: pytest.Config, nodeids: Sequence[str], outputs: Outputs) -> None:
        self._config = config
        self._nodeids = set(nodeids)
        self._outputs = outputs
        self._reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
        self._finished: set[str] = set()
        self._running = ""  # node id
        self._line = b""  # the incomplete last one
        self._log = b""  # what the process wrote that is no message
        self._end: str | None = None
        self._unavailable: str | None = None

    def start(self) -> None:
        """Start the process, unless it is running."""
        self._read_next()

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Report a remote test as if it had run in this process."""
        if item.nodeid not in self._nodeids:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self.reports(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # This item set nothing up, but fixtures of the item before it may have to be torn down.
        tear_down(item, nextitem)
        return True

    def pytest_sessionfinish(self) -> None:
        """Terminate the process."""
        self._outputs.close()  # type: ignore[attr-defined]

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        """Wait for the reports of one test; without any, return a failure, or a skip if the run is unavailable."""
        while not (item.nodeid in self._finished or self._end or self._unavailable):
            self._read_next()
        if item.nodeid in self._finished:
            return self._reports[item.nodeid]
        if self._unavailable:
            path, line, _ = item.location
            reason: Any = (path, (line or 0) + 1, f"Skipped: {self._unavailable}")
            return [_report(item, "skipped", reason)]
        when = " while this test was running" if self._running == item.nodeid else ""
        log = self._log.decode(errors="replace").strip()
        output = f"; its output:\n{log}" if log else ""
        return [_report(item, "failed", f"no report of this test: {self._end}{when}{output}")]

    def _read_next(self) -> None:
        """Process one piece of output; the end of the output is the end of the run."""
        try:
            stream, data = next(self._outputs)
        except StopIteration:
            self._end = "the remote run ended"
        except CapabilityError as error:
            self._unavailable = str(error)
        else:
            self._feed(stream, data)

    def _feed(self, stream: Stream, data: bytes) -> None:
        if stream == "stderr":
            self._append_log(data)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                self._append_log(line + b"\n")
            else:
                self._handle(message)
                if self._end:
                    return

    def _handle(self, message: Any) -> None:
        """Process a message of tests.reporting."""
        match message:
            case {"collected": nodeids}:
                self._compare(nodeids)
            case {"broken": error}:
                self._append_log(f"{error}\n".encode())
            case {"started": nodeid}:
                self._running = nodeid
            case {"report": data}:
                report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
                self._reports[report.nodeid].append(report)
            case {"finished": nodeid}:
                self._finished.add(nodeid)
                self._running = ""

    def _append_log(self, data: bytes) -> None:
        self._log = (self._log + data)[-_LOG_BYTES:]

    def _compare(self, nodeids: list[str]) -> None:
        """End the run if the remote process collected other tests than were selected here."""
        if sorted(nodeids) != sorted(self._nodeids):
            difference = ", ".join(sorted(self._nodeids.symmetric_difference(nodeids)))
            self._end = (
                f"{len(self._nodeids)} tests were selected, but {len(nodeids)} were collected; "
                f"the difference: {difference}"
            )


def _report(item: pytest.Item, outcome: Any, longrepr: Any) -> pytest.TestReport:
    when: Any = "setup" if outcome == "skipped" else "call"
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, longrepr, when)
