# SPDX-License-Identifier: Apache-2.0
"""The tests of the connection, run again under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ("test_icrc.py", "test_rc.py", "test_rc_errors.py")


def runtime(name: str) -> str:
    """The path of a sanitizer's library, which has to be loaded before Python."""
    found = subprocess.run(
        ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout
    return found.strip()


def run(folder: Path, *tests: str, variable: str = "STACK_SANITIZERS") -> subprocess.CompletedProcess[str]:
    # Python itself leaves memory to the system at its end.
    environ = {
        "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",
        variable: str(folder),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=os.environ | environ, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def sanitizers() -> None:
    if not Path(runtime("libasan.so")).is_absolute():
        pytest.skip("libasan.so: gcc's sanitizers are needed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the core with the sanitizers is compiled, once."""
    return tmp_path_factory.mktemp("sanitized")


def test_nothing_is_touched_out_of_bounds(folder: Path) -> None:
    done = run(folder, *(f"tests/stack/{name}" for name in TESTS))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def test_the_sanitizers_detect_a_planted_error(folder: Path, tmp_path: Path) -> None:
    """A receive whose stated length exceeds its buffer by one byte."""
    test = tmp_path / "test_astray.py"
    test.write_text(
        "from tests.stack.conftest import core\n"
        "from tests.stack.link import connect\n"
        "def test_astray(core):\n"
        "    a, b = connect(core)\n"
        "    core.ffi.cdef('void *malloc(unsigned long); void free(void *);')\n"
        "    buffer = core.ffi.gc(core.lib.malloc(63), core.lib.free)\n"
        "    assert core.lib.rc_post_receive(b.pair, 0, buffer, 64)\n"
        "    assert a.send(bytes(64))\n"
        "    b.take(a.transmit(1), 1)\n"
    )
    done = run(folder, "--rootdir", str(ROOT), str(test))
    assert "heap-buffer-overflow" in done.stderr
