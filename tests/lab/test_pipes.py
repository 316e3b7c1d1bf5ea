# SPDX-License-Identifier: Apache-2.0
"""Commands whose reader goes away after one line, as in `hipsnet top FILE | head -1`."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.lab.rig import REPOSITORY, Lab, command_line


@pytest.fixture(scope="module")
def lab(make_shared_lab: Callable[..., Lab]) -> Lab:
    made = make_shared_lab()
    made.provision()
    return made


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("exec", ("s00", "--", "seq", "100000")),
        ("run", ("--sizes", "1KiB:64KiB:x2", "--iters", "20000")),
        ("run", ("--", "seq", "100000")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_command_ends_with_its_reader(lab: Lab, command: str, arguments: tuple[str, ...]) -> None:
    """No traceback and the status of SIGPIPE; the job of `run` ends too."""
    with started(lab, command, *arguments) as process:
        assert process.stdout and process.stdout.readline()
        assert ended(process) in (141, -signal.SIGPIPE)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("top", ("--once",)), ("inspect", ()), ("ping", ())],
    ids=("top", "inspect", "ping"),
)
def test_a_command_without_a_reader(lab: Lab, command: str, arguments: tuple[str, ...]) -> None:
    with started(lab, command, *arguments) as process:
        assert ended(process) == 141


def started(lab: Lab, command: str, *arguments: str) -> subprocess.Popen[str]:
    line = command_line(command, lab.file, *arguments)
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY, text=True)


def ended(process: subprocess.Popen[str]) -> int:
    """Close the pipe; return the exit status."""
    assert process.stdout and process.stderr
    process.stdout.close()
    errors = process.stderr.read()
    assert "Traceback" not in errors
    return process.wait(100)
