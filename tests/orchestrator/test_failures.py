# SPDX-License-Identifier: Apache-2.0
"""Failure reports: which are accepted, which are ignored, and which rank is named as the cause."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hipsnet.failures import Failure
from orchestrator.jobs import verdict
from orchestrator.jobs.failures import Inbox
from orchestrator.jobs.launch import Ending, Outcome

ROOT = Path(__file__).parents[2]
LOST = Failure(0, "CollectiveError", "rank 2 is silent", "Traceback", True, True)
INPUT = Failure(0, "InputError", "WORLD_SIZE: found 7", "Traceback", True, False)
OWN = Failure(0, "ValueError", "a bad thing", "Traceback", False, False)

PROGRAM = """
import sys
from hipsnet import failures
from hipsnet.errors import CollectiveError
sys.excepthook = lambda kind, error, trace: print("own hook:", error, file=sys.stderr)
failures.install()
failures.install()
raise {error}
"""


def run(inbox: Path, error: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "HIPSNET_FAILURES": str(inbox), "RANK": "3"}
    code = PROGRAM.format(error=error)
    return subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_an_error_of_hipsnet_is_reported_and_not_printed(tmp_path: Path) -> None:
    with Inbox(tmp_path / "inbox") as inbox:
        done = run(inbox.path, "CollectiveError('rank 1 is silent')")
        (failure,) = inbox.read()
    assert (done.returncode, done.stderr) == (1, "")
    assert (failure.rank, failure.kind, failure.message) == (3, "CollectiveError", "rank 1 is silent")
    assert failure.is_expected and failure.is_survivor
    assert failure.traceback.startswith("Traceback") and failure.traceback.endswith("rank 1 is silent\n")
    assert not inbox.path.exists()


def test_another_error_is_reported_and_printed_by_the_programs_own_hook(tmp_path: Path) -> None:
    with Inbox(tmp_path / "inbox") as inbox:
        done = run(inbox.path, "ValueError('x' * 100_000)")
        (failure,) = inbox.read()
    assert done.stderr == f"own hook: {'x' * 100_000}\n"
    assert failure.kind == "ValueError" and not failure.is_expected and set(failure.message) == {"x"}


def test_without_a_launcher_the_programs_own_hook_prints(tmp_path: Path) -> None:
    assert run(tmp_path / "nothing", "CollectiveError('lost')").stderr == "own hook: lost\n"


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"rank": 1}', b"\xff", LOST.to_bytes().replace(b"0", b'"0"')]
)
def test_what_is_no_report_is_ignored(tmp_path: Path, data: bytes) -> None:
    with Inbox(tmp_path / "inbox") as inbox, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(data, str(inbox.path))
        sender.sendto(LOST.to_bytes(), str(inbox.path))
        assert inbox.read() == [LOST]


@pytest.mark.parametrize(
    "endings",
    [
        # The cause comes first in each row; the others ended before it.
        [(-9, False, None), (1, False, LOST), (7, False, None)],
        [(1, False, OWN), (1, False, LOST), (7, False, None)],
        [(7, False, None), (1, False, LOST), (-15, True, None)],
        [(2, False, INPUT), (1, False, LOST), (0, False, None)],
        [(-15, True, OWN), (1, False, LOST), (-15, True, LOST)],
        [(1, False, LOST), (-15, True, LOST), (-15, True, None)],
    ],
)
def test_the_cause_is_distinguished_from_its_effects(
    endings: list[tuple[int, bool, Failure | None]],
) -> None:
    made = [
        Ending(rank, status, 9.0 - rank, ordered, failure)
        for rank, (status, ordered, failure) in enumerate(endings)
    ]
    outcome = Outcome(tuple(reversed(made)), None, 0.0, 10.0)
    assert outcome.failure is made[0]
    first, others = verdict.lines(["s0", "s1", "s2"], outcome)
    assert first.startswith("s0 (rank 0) ") and "9.0 s after the start" in first
    assert others.startswith("the other 2 ranks: ")


def test_the_first_of_several_survivors_is_named() -> None:
    made = [Ending(rank, 1, 5.0 + rank, False, LOST) for rank in range(3)]
    assert Outcome(tuple(made[::-1]), None, 0.0, 9.0).failure is made[0]
    assert Outcome((Ending(0, 0, 1.0, False),), None, 0.0, 1.0).failure is None
    assert Outcome((Ending(0, -15, 1.0, True),), None, 0.0, 1.0).failure is None
