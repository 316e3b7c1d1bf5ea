# SPDX-License-Identifier: Apache-2.0
"""Remote runs: every report arrives unchanged, and a test without a report fails."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from hipsnet.errors import CapabilityError
from tests.remote_pytest import REPOSITORY, Outputs, RemoteRun, remote_command

TESTS = """
import os, sys
import pytest

def test_passes(tmp_path):
    assert tmp_path.is_dir()

@pytest.mark.parametrize("word", ["a b", "ä[1]"])
def test_fails(word):
    print("heard", word)
    print("aloud", file=sys.stderr)
    assert word == "c"

def test_skips():
    pytest.skip("no such thing here")

@pytest.mark.xfail
def test_is_expected_to_fail():
    raise RuntimeError

@pytest.fixture
def broken():
    yield
    raise RuntimeError("went wrong at the end")

def test_tears_down_badly(broken):
    pass
"""
DIES = "\ndef test_ends_the_interpreter():\n    os._exit(3)\n\ndef test_comes_later():\n    pass\n"


NAMES = (
    *("test_passes", "test_fails[a b]", r"test_fails[\xe4[1]]", "test_skips"),
    *("test_is_expected_to_fail", "test_tears_down_badly"),
)


@dataclass(frozen=True)
class Item:
    """The attributes of a pytest.Item that RemoteRun reads."""

    nodeid: str

    @property
    def location(self) -> tuple[str, int, str]:
        return ("test_remote.py", 0, self.nodeid)


Reports = dict[str, list[pytest.TestReport]]


@pytest.fixture
def reports(pytestconfig: pytest.Config, tmp_path: Path) -> Callable[..., Reports]:
    """Run a file of tests in a local process as the machine would; returns the reports by the tests' names."""
    (tmp_path / "pytest.ini").touch()

    def run(
        text: str, names: Sequence[str], expected: Sequence[str] = (), outputs: Outputs | None = None
    ) -> Reports:
        (tmp_path / "test_remote.py").write_text(text)
        items = {name: Item(f"test_remote.py::{name}") for name in (*names, *expected)}
        command = remote_command([items[name].nodeid for name in names])
        nodeids = [item.nodeid for item in items.values()]
        remote = RemoteRun(pytestconfig, nodeids, outputs or locally(command, tmp_path))
        return {name: remote.reports(item) for name, item in items.items()}  # type: ignore[arg-type]

    return run


def locally(command: list[str], folder: Path) -> Outputs:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    for piece in range(0, len(done.stdout), 100):  # pieces do not end with lines
        yield "stdout", done.stdout[piece : piece + 100]
    yield "stderr", done.stderr


def outcomes(found: Reports) -> dict[str, list[tuple[str, str]]]:
    return {name: [(report.when, report.outcome) for report in reports] for name, reports in found.items()}


def test_reports_arrive_as_they_were(reports: Callable[..., Reports]) -> None:
    found = reports(TESTS, NAMES)
    fine, bad, skipped = ("setup", "passed"), ("call", "failed"), ("call", "skipped")
    end = ("teardown", "passed")
    assert outcomes(found) == {
        NAMES[0]: [fine, ("call", "passed"), end],
        NAMES[1]: [fine, bad, end],
        NAMES[2]: [fine, bad, end],
        NAMES[3]: [fine, skipped, end],
        NAMES[4]: [fine, skipped, end],
        NAMES[5]: [fine, ("call", "passed"), ("teardown", "failed")],
    }
    call = found["test_fails[a b]"][1]
    assert 'assert word == "c"' in call.longreprtext
    assert (call.capstdout, call.capstderr) == ("heard a b\n", "aloud\n")
    assert "no such thing here" in str(found["test_skips"][1].longrepr)
    assert hasattr(found["test_is_expected_to_fail"][1], "wasxfail")
    assert "went wrong at the end" in found["test_tears_down_badly"][2].longreprtext


def test_a_test_that_ends_the_run_and_those_behind_it_fail(reports: Callable[..., Reports]) -> None:
    dies, later = "test_ends_the_interpreter", "test_comes_later"
    found = reports(TESTS + DIES, ("test_passes", dies, later))
    assert [reports[-1].outcome for reports in found.values()] == ["passed", "failed", "failed"]
    assert found[dies][0].longreprtext.startswith(
        "no report of this test: the remote run ended while this test was running"
    )
    assert "while" not in found[later][0].longreprtext


def test_a_test_that_was_not_collected_remotely_fails_all(reports: Callable[..., Reports]) -> None:
    found = reports(TESTS, ("test_passes",), expected=("test_lost",))
    texts = {reports[0].longreprtext for reports in found.values()}
    difference = "2 tests were selected, but 1 were collected; the difference: test_remote.py::test_lost"
    assert texts == {f"no report of this test: {difference}"}


def test_an_import_error_is_in_the_failure(reports: Callable[..., Reports]) -> None:
    found = reports("import nosuchmodule\n" + TESTS, ("test_passes",))
    assert "nosuchmodule" in found["test_passes"][0].longreprtext


def failing() -> Outputs:
    yield "stderr", b"vm: the machine ended before it had booted\n"


def unavailable() -> Outputs:
    yield from ()
    raise CapabilityError("requires qemu")


def test_a_machine_that_fails_fails_its_tests_and_an_unavailable_one_skips_them(
    reports: Callable[..., Reports],
) -> None:
    found = reports(TESTS, NAMES[:2], outputs=failing())
    assert outcomes(found) == {key: [("call", "failed")] for key in NAMES[:2]}
    output = "the remote run ended; its output:\nvm: the machine ended before it had booted"
    assert output in found["test_passes"][0].longreprtext
    found = reports(TESTS, NAMES[:2], outputs=unavailable())
    assert outcomes(found) == {key: [("setup", "skipped")] for key in NAMES[:2]}
    assert "requires qemu" in str(found["test_passes"][0].longrepr)


BEGUN = """
import sys, time
from tests.vm.machine_run import in_machine
outputs = in_machine(sys.argv[1:])
next(outputs)
print("begun", flush=True)
time.sleep(600 if sys.argv[1] == "killed" else 0)
outputs.close()
"""


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_the_tool_does_not_outlive_its_run(how: str) -> None:
    """tests/vm/test_tool.py shows that the machine does not outlive the tool."""
    mark = f"{how}-{os.getpid()}"
    deadline = time.monotonic() + 20
    command = [sys.executable, "-c", BEGUN, how, mark]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stdout.readline() == "begun\n"
        if how == "killed":
            while interpreters(mark) != 2:  # the run, and the tool
                assert time.monotonic() < deadline
                time.sleep(0.01)
            run.kill()
    while interpreters(mark):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def interpreters(mark: str) -> int:
    """How many Pythons have this on their command line."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found += words[0] == os.fsencode(sys.executable) and os.fsencode(mark) in words
    return found
