"""That tests which run elsewhere stand here as what they were, and that none is lost on the way."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hipsnet.errors import CapabilityError
from tests.vm.machine_run import MachineRun, Outputs, pytest_command
from tools.virtual_machine.machine import MachineError

REPOSITORY = Path(__file__).resolve().parents[2]
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
class Elsewhere:
    """What MachineRun asks of a test."""

    nodeid: str

    @property
    def location(self) -> tuple[str, int, str]:
        return ("test_there.py", 0, self.nodeid)


Reports = dict[str, list[pytest.TestReport]]


@pytest.fixture
def reports(pytestconfig: pytest.Config, tmp_path: Path) -> Callable[..., Reports]:
    """Run a file of tests as the machine would, in a process here; the reports by the tests' names."""
    (tmp_path / "pytest.ini").touch()

    def run(
        text: str, names: Sequence[str], wanted: Sequence[str] = (), outputs: Outputs | None = None
    ) -> Reports:
        (tmp_path / "test_there.py").write_text(text)
        items = {name: Elsewhere(f"test_there.py::{name}") for name in (*names, *wanted)}
        command = pytest_command([items[name].nodeid for name in names])
        nodeids = [item.nodeid for item in items.values()]
        here = MachineRun(pytestconfig, nodeids, outputs or locally(command, tmp_path))
        return {name: here.reports(item) for name, item in items.items()}  # type: ignore[arg-type]

    return run


def locally(command: list[str], folder: Path) -> Outputs:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    for piece in range(0, len(done.stdout), 100):  # as pipes give it, not by lines
        yield "stdout", done.stdout[piece : piece + 100]
    yield "stderr", done.stderr


def outcomes(found: Reports) -> dict[str, list[tuple[str, str]]]:
    return {name: [(report.when, report.outcome) for report in reports] for name, reports in found.items()}


def test_every_test_stands_here_as_it_went_there(reports: Callable[..., Reports]) -> None:
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
    assert found[dies][0].longreprtext.startswith("no report of this test: the run ended while this test ran")
    assert "while" not in found[later][0].longreprtext


def test_a_test_that_was_not_collected_there_fails_all(reports: Callable[..., Reports]) -> None:
    found = reports(TESTS, ("test_passes",), wanted=("test_lost",))
    told = {text[0].longreprtext for text in found.values()}
    assert told == {
        "no report of this test: 2 tests wanted, 1 collected in the machine: test_there.py::test_lost"
    }


def test_a_file_that_cannot_be_imported_is_told(reports: Callable[..., Reports]) -> None:
    found = reports("import nosuchmodule\n" + TESTS, ("test_passes",))
    assert "nosuchmodule" in found["test_passes"][0].longreprtext


def failing(error: Exception) -> Outputs:
    yield "stderr", b"booting\n"
    raise error


def test_a_machine_that_fails_fails_its_tests_and_one_that_cannot_be_had_skips_them(
    reports: Callable[..., Reports],
) -> None:
    found = reports(TESTS, NAMES[:2], outputs=failing(MachineError("the machine ended")))
    assert outcomes(found) == {key: [("call", "failed")] for key in NAMES[:2]}
    assert "the machine ended; it said:\nbooting" in found["test_passes"][0].longreprtext
    found = reports(TESTS, NAMES[:2], outputs=failing(CapabilityError("qemu wanted")))
    assert outcomes(found) == {key: [("setup", "skipped")] for key in NAMES[:2]}
    assert "qemu wanted" in str(found["test_passes"][0].longrepr)
