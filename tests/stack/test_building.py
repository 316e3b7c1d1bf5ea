# SPDX-License-Identifier: Apache-2.0
"""C is recompiled only after a change of a file it includes; its folders import one way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kernel
from hipsnet.errors import CapabilityError
from hipsnet.stack import building

FOLDERS = ("wire", "cable", "roce", "xsk", "ports", "programs", "switch")
"""As README.md has them: each includes and imports only those before it."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like that of the stack: a program, its header, a header included by that, and an unrelated one."""
    files = {
        "switch/one.c": '#include "switch/near.h"\nint main(void)\n{\n\treturn VALUE;\n}\n',
        "switch/near.h": '#include "wire/far.h"\n',
        "wire/far.h": "#define VALUE 1\n",
        "wire/other.h": "#define VALUE 9\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(building, "FOLDER", tmp_path)
    return tmp_path


def built(package: Path) -> Path:
    return building.binary("one", ["switch/one.c"], package / "cache")


def test_an_edit_of_an_included_header_recompiles(package: Path) -> None:
    first = built(package)
    (package / "wire/far.h").write_text("#define VALUE 2\n")
    second = built(package)
    assert first != second
    assert [subprocess.run([program], check=False).returncode for program in (first, second)] == [1, 2]


def test_an_edit_of_another_header_does_not(package: Path) -> None:
    first = built(package)
    before = first.stat()
    (package / "wire/other.h").write_text("#error not for you\n")
    assert built(package) == first
    assert first.stat() == before


def test_a_newly_included_header_becomes_a_dependency(package: Path) -> None:
    (package / "switch/near.h").write_text('#  include "wire/other.h"\n')
    first = built(package)
    (package / "wire/other.h").write_text("#define VALUE 3\n")
    second = built(package)
    assert subprocess.run([second], check=False).returncode == 3
    assert first != second


def test_a_missing_header_is_an_error_although_a_program_is_cached(package: Path) -> None:
    built(package)
    (package / "wire/far.h").unlink()
    with pytest.raises(CapabilityError, match=r"wire/far\.h: No such file"):
        built(package)


def test_missing_headers_are_reported_as_packages(tmp_path: Path) -> None:
    """The whole stack, on a machine where libxdp's headers are not installed."""
    if os.geteuid() != 0:
        pytest.skip("root: hides a folder in a mount namespace")
    program = (
        "from hipsnet.errors import CapabilityError\n"
        "from hipsnet.stack.ports.loop import core\n"
        "try:\n    core()\n"
        "except CapabilityError as error:\n    print(error)\n"
    )
    hide = 'mount -t tmpfs none /usr/include/xdp && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hide, "sh", sys.executable, "-c", program],
        cwd=Path(__file__).parents[2], env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == (
        "cannot compile stack.so: libxdp or its headers are missing; run: apt install libxdp-dev libbpf-dev\n"
    )


def test_a_missing_library_is_reported_as_its_package(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests the linker's message; no machine has this library."""
    monkeypatch.setitem(building._PACKAGES, "hipsnetnosuch", "libnosuch-dev")
    with pytest.raises(CapabilityError, match=r"libhipsnetnosuch or its .* run: apt install libnosuch-dev$"):
        building.binary("one", ["switch/one.c"], package / "cache", ["hipsnetnosuch"])


def test_the_compiler_sees_the_same_headers() -> None:
    sources = sorted(building.FOLDER.glob("*/*.c"))
    command = ["cc", "-MM", f"-I{building.FOLDER}", f"-I{kernel.FOLDER}", *map(str, sources)]
    rules = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seen = [set(rule.split()[1:]) for rule in rules.replace("\\\n", " ").splitlines()]
    assert [set(map(str, building._texts([source]))) for source in sources] == seen


def test_no_source_has_a_warning() -> None:
    sources = map(str, building.FOLDER.glob("*/*.c"))
    folders = (f"-I{folder}" for folder in building._include_folders())
    command = ["cc", *building._FLAGS, "-Werror", "-fsyntax-only", *folders, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_folders_include_only_folders_listed_before_them() -> None:
    assert {path.name for path in building.FOLDER.glob("*/") if any(path.glob("*.[ch]"))} == set(FOLDERS)
    uses = re.compile(r'^(?:#include "(?=\w+/)|from hipsnet\.stack\.)(\w+)', re.MULTILINE)
    for path in [*building.FOLDER.glob("*/*.[ch]"), *building.FOLDER.glob("*/*.py")]:
        allowed = {"building", *FOLDERS[: FOLDERS.index(path.parent.name) + 1]}
        assert set(uses.findall(path.read_text())) <= allowed, path


def test_processes_that_need_a_program_at_once_compile_it_once(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    tools = tmp_path / "tools"
    tools.mkdir()
    compiler = tools / "cc"
    compiler.write_text(f'#!/bin/sh\necho begun >> {log}\nsleep 0.3\nexec /usr/bin/cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    with ThreadPoolExecutor(5) as threads:
        found = {one.result() for one in [threads.submit(built, package) for _ in range(5)]}
    assert len(found) == 1
    assert log.read_text() == "begun\n"
