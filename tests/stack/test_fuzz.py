# SPDX-License-Identifier: Apache-2.0
"""Thousands of hostile frames; `tools/fuzz` runs the same for as long as required."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def fuzz(folder: Path, target: str, runs: int) -> dict[str, int]:
    """Run a target of `tools/fuzz`; return how often its inputs reached each state."""
    if shutil.which("clang-14") is None and shutil.which("clang") is None:
        pytest.skip("requires clang, for its fuzzer")
    # A number of inputs, not a time: the same on a busy machine.
    command = [str(ROOT / "tools" / "fuzz"), target, "300", f"-runs={runs}", "-seed=1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert not list(folder.iterdir())  # no input that failed
    reached = re.findall(r" (\w+) (\d+)", re.findall(r"^reached:.*$", done.stderr, re.MULTILINE)[-1])
    return {name: int(count) for name, count in reached}


def test_no_frame_causes_a_memory_error(tmp_path: Path) -> None:
    """The sanitizers find no error, and the fuzzer has reached the code behind every check."""
    reached = fuzz(tmp_path, "endpoint", 30000)
    assert all(reached.values()), reached
