"""A run of pytest in a virtual machine, and its reports for the tests out here."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from hipsnet.errors import CapabilityError, HipsnetError
from kernel import cache_folder
from tools.virtual_machine.machine import Machine, Order, Stream

MODULES = ("veth", "ib_uverbs", "rdma_rxe")
MEMORY = "2G"
TIMEOUT_S = 1200.0
_TOLD_BYTES = 4000

Outputs = Iterator[tuple[Stream, bytes]]


def pytest_command(nodeids: Sequence[str]) -> list[str]:
    """Pytest on these tests, telling what comes of them as tests.vm.reporting does."""
    return [
        # Plugins that nobody needs there take seconds to import on an emulated processor.
        *("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest"),
        *("-p", "pytest_timeout", "-p", "tests.vm.reporting", "-p", "no:terminal", "-p", "no:cacheprovider"),
        *("-o", "addopts=--strict-markers --import-mode=importlib"),
        *nodeids,
    ]


def in_machine(nodeids: Sequence[str]) -> Outputs:
    """What pytest says in a machine of its own, which lives as long as somebody listens."""
    # What is compiled in there is kept out here: a compiler takes minutes on an emulated processor.
    kept = cache_folder()
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    order = Order(
        pytest_command(nodeids), modules=MODULES, memory=MEMORY, timeout_s=TIMEOUT_S, writable=[kept]
    )
    with Machine(order) as machine:
        yield from machine.outputs()
        yield "stderr", f"pytest ended with {machine.exit_code}\n".encode()


class MachineRun:
    """The reports of these tests, each as soon as it has ended in there."""

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

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        """The reports of one test, waited for; one of our own making if none comes."""
        while not (item.nodeid in self._finished or self._end or self._lacking):
            self._advance()
        if item.nodeid in self._finished:
            return self._reports[item.nodeid]
        if self._lacking:
            path, line, _ = item.location
            reason: Any = (path, (line or 0) + 1, f"Skipped: virtual machine: {self._lacking}")
            return [_report(item, "skipped", reason)]
        while_running = " while this test ran" if self._running == item.nodeid else ""
        told = self._told.decode(errors="replace").strip()
        said = f"; it said:\n{told}" if told else ""
        return [_report(item, "failed", f"no report of this test: {self._end}{while_running}{said}")]

    def close(self) -> None:
        """End the machine."""
        self._outputs.close()  # type: ignore[attr-defined]

    def _advance(self) -> None:
        """Take one piece of output; its end, and the machine's failure, is the end of the run."""
        try:
            stream, data = next(self._outputs)
        except StopIteration:
            self._end = "the run ended"
        except CapabilityError as error:
            self._lacking = str(error)
        except HipsnetError as error:
            self._end = str(error)
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
        """The machine must run what was collected out here, neither more nor less."""
        if sorted(nodeids) != sorted(self._wanted):
            odd = ", ".join(sorted(self._wanted.symmetric_difference(nodeids)))
            self._end = f"{len(self._wanted)} tests wanted, {len(nodeids)} collected in the machine: {odd}"


def _report(item: pytest.Item, outcome: Any, longrepr: Any) -> pytest.TestReport:
    when: Any = "setup" if outcome == "skipped" else "call"
    return pytest.TestReport(item.nodeid, item.location, {}, outcome, longrepr, when)
