# SPDX-License-Identifier: Apache-2.0
"""The tests of the fluid simulator, run again under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.stack import test_rc_sanitized
from tests.stack.test_rc_sanitized import ROOT, sanitizers  # noqa: F401 (a fixture)

run = partial(test_rc_sanitized.run, variable="PREDICT_SANITIZERS")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the library with the sanitizers is compiled once."""
    return tmp_path_factory.mktemp("sanitized")


def test_nothing_is_touched_out_of_bounds(folder: Path) -> None:
    done = run(folder, "tests/predict/test_flows.py", "tests/predict/test_simulation.py", "-k", "not simgrid")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def test_the_sanitizers_detect_a_planted_error(folder: Path, tmp_path: Path) -> None:
    """A program that claims one transfer more than its columns have."""
    test = tmp_path / "test_astray.py"
    test.write_text(
        "from hipsnet.predict.fluid import flows\n"
        "from tests.predict.conftest import sanitized\n"
        "def test_astray():\n"
        "    ffi, lib = flows.library()\n"
        "    ffi.cdef('void *malloc(unsigned long); void free(void *);')\n"
        "    given = ffi.new('struct program_input *')\n"
        "    given.transfers, given.ranks, given.cuts, given.chunk = 1, 1, 2, 1\n"
        "    given.src = ffi.cast('u32 *', lib.malloc(1))\n"
        "    lib.program_count(given)\n"
    )
    done = run(folder, "--rootdir", str(ROOT), str(test))
    assert "heap-buffer-overflow" in done.stderr
