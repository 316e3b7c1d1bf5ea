"""A run of pytest in a virtual machine, and its reports for the tests out here."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from hipsnet.errors import CapabilityError, HipsnetError
from kernel import cache_folder
from tools.virtual_machine.machine import Machine, Order

MODULES = ("veth", "ib_uverbs", "rdma_rxe")
MEMORY = "2G"
TIMEOUT_S = 900.0
_PYTEST = (
    # Plugins that nobody needs there take seconds to import on an emulated processor.
    *("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest"),
    *("-p", "pytest_timeout", "-p", "tests.vm.reporting", "-p", "no:terminal", "-p", "no:cacheprovider"),
    *("-o", "addopts=--strict-markers --import-mode=importlib"),
)
_TOLD_BYTES = 4000


class MachineRun:
    """One machine that runs these tests; the reports of each are there as soon as it has ended."""

    def __init__(self, config: pytest.Config, nodeids: Sequence[str], order: Order | None = None) -> None:
        self._config = config
        self._wanted = set(nodeids)
        self._reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
        self._finished: set[str] = set()
        self._running = ""
        self._line = self._told = b""
        self._end: str | None = None
        self._lacking: str | None = None
        self._machine: Machine | None = None
        order = order or _order(nodeids)
        try:
            self._machine = Machine(order).__enter__()
            self._outputs = self._machine.outputs()
        except CapabilityError as error:
            self._lacking = str(error)
        except HipsnetError as error:
            self._end = str(error)

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        """The reports of one test, waited for; one of our own making if the machine has none."""
        while not (item.nodeid in self._finished or self._end or self._lacking):
            self._advance()
        if item.nodeid in self._finished:
            return self._reports[item.nodeid]
        if self._lacking:
            path, line, _ = item.location
            reason: Any = (path, (line or 0) + 1, f"Skipped: virtual machine: {self._lacking}")
            return [_report(item, "skipped", reason)]
        while_running = " while this test ran" if self._running == item.nodeid else ""
        return [_report(item, "failed", f"no report of this test: {self._end}{while_running}")]

    def close(self) -> None:
        """End the machine."""
        if self._machine is not None:
            self._machine.__exit__(None, None, None)
            self._machine = None

    def _advance(self) -> None:
        """Take one piece of output; its end, and the machine's failure, is the end of the run."""
        assert self._machine is not None
        try:
            stream, data = next(self._outputs)
        except StopIteration:
            self._end = f"pytest in the machine ended with {self._machine.exit_code}{self._words()}"
            return
        except HipsnetError as error:
            self._end = f"{error}{self._words()}"
            return
        if stream == "stderr":
            self._told = (self._told + data)[-_TOLD_BYTES:]
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._understand(line)

    def _understand(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            self._told = (self._told + line + b"\n")[-_TOLD_BYTES:]
            return
        match told:
            case {"collected": nodeids}:
                self._compare(nodeids)
            case {"broken": why}:
                self._told += f"{why}\n".encode()
            case {"started": nodeid}:
                self._running = nodeid
            case {"report": data}:
                report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
                self._reports[report.nodeid].append(report)
            case {"finished": nodeid}:
                self._finished.add(nodeid)

    def _compare(self, nodeids: list[str]) -> None:
        """The machine must run what was collected out here, neither more nor less."""
        if set(nodeids) != self._wanted or len(nodeids) != len(self._wanted):
            odd = ", ".join(sorted(self._wanted.symmetric_difference(nodeids)))
            self._end = f"{len(self._wanted)} tests wanted, {len(nodeids)} collected in the machine: {odd}"

    def _words(self) -> str:
        told = self._told.decode(errors="replace").strip()
        return f"; it said:\n{told}" if told else ""


def _order(nodeids: Sequence[str]) -> Order:
    """What is compiled in there is kept out here for the next run: a compiler takes minutes on that processor."""
    kept = cache_folder()
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Order([*_PYTEST, *nodeids], modules=MODULES, memory=MEMORY, timeout_s=TIMEOUT_S, writable=[kept])


def _report(item: pytest.Item, outcome: Any, longrepr: Any) -> pytest.TestReport:
    when: Any = "setup" if outcome == "skipped" else "call"
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, longrepr, when)
