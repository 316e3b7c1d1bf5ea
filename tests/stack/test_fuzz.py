# SPDX-License-Identifier: Apache-2.0
"""Thousands of hostile frames; `tools/fuzz` runs the same for as long as required."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_no_frame_causes_a_memory_error(tmp_path: Path) -> None:
    """The sanitizers see nothing wrong, and the fuzzer has been behind every check."""
    if shutil.which("clang-14") is None and shutil.which("clang") is None:
        pytest.skip("clang: its fuzzer is needed")
    # Counted, not timed: a busy machine gets as far as an idle one.
    command = [str(ROOT / "tools" / "fuzz"), "60", "-runs=30000", "-seed=1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert not list(tmp_path.iterdir())  # no input that crashed it
    reached = dict(re.findall(r" (\w+) (\d+)", re.findall(r"^reached:.*$", done.stderr, re.MULTILINE)[-1]))
    assert all(int(count) > 0 for count in reached.values()), reached
