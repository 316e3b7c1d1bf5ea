# SPDX-License-Identifier: Apache-2.0
"""The tests of the core, run again under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.stack import test_rc_sanitized
from tests.stack.test_rc_sanitized import ROOT, sanitizers  # noqa: F401 (a fixture)

run = partial(test_rc_sanitized.run, variable="ENGINE_SANITIZERS")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the library with the sanitizers is compiled once."""
    return tmp_path_factory.mktemp("sanitized")


def test_nothing_is_touched_out_of_bounds(folder: Path) -> None:
    done = run(
        folder, "tests/engine/test_core.py", "tests/engine/test_core_failures.py", "tests/engine/test_xdp.py"
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def test_the_verbs_wire_touches_nothing_out_of_bounds(folder: Path) -> None:
    done = run(folder, "tests/engine/test_verbs.py", "-k", "not dead_path and not idle")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def test_the_sanitizers_detect_a_planted_error(folder: Path, tmp_path: Path) -> None:
    """A message shorter than its stated length."""
    test = tmp_path / "test_astray.py"
    test.write_text(
        "from tests.engine.conftest import scripted\n"
        "from tests.engine.world import World\n"
        "def test_astray(scripted):\n"
        "    world = World(scripted, 'torus(2)')\n"
        "    scripted.ffi.cdef('void *malloc(unsigned long); void free(void *);')\n"
        "    words = scripted.ffi.gc(scripted.lib.malloc(13), scripted.lib.free)\n"
        "    scripted.lib.core_on_message(world.cores[0], 0, words, 200, 0)\n"
        "    scripted.lib.world_inject(world.handle, 0, 0, words, 200)\n"
    )
    done = run(folder, "--rootdir", str(ROOT), str(test))
    assert "heap-buffer-overflow" in done.stderr
