# SPDX-License-Identifier: Apache-2.0
"""The threads of an engine under the sanitizers, and the resources that a closed engine leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hipsnet.engine import library
from hipsnet.engine.wire import verbs_library
from hipsnet.stack import building

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("sanitizers", "wire"), [("thread", "TCP"), ("address,undefined", "TCP"), ("thread", "VERBS")]
)
def test_callers_and_the_progress_thread_do_not_race(tmp_path: Path, sanitizers: str, wire: str) -> None:
    program = tmp_path / "threads"
    (tmp_path / "gid").write_text("gid")
    include = [f"-I{folder}" for folder in (building.FOLDER, library.FOLDER.parent)]
    verbs = [HERE / "verbs_rig.c", *verbs_library.SOURCES] if wire == "VERBS" else []
    sources = [HERE / "driver_threads.c", *verbs, *(library.FOLDER / source for source in library.SOURCES)]
    flags = ["-std=gnu11", "-g", "-O1", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-pthread"]
    flags.append(f"-D{wire}")
    subprocess.run(["cc", *flags, *include, *sources, "-o", program], check=True)
    done = subprocess.run([program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "0 wrong\n")
