# SPDX-License-Identifier: Apache-2.0
"""Programs are compiled once, cached, and loaded without the compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hipsnet.errors import CapabilityError, ProvisionError
from hipsnet.node import bpf, programs
from hipsnet.node.compiling import compile_programs
from hipsnet.node.layout import dtype_of


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a program in it."""
    folder = tmp_path_factory.mktemp("compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        programs.ensure_programs(("cable",))
    return folder / "hipsnet"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hipsnet"


@pytest.fixture
def entry(kept: Path, compiled: Path) -> Path:
    """The file of a program in the cache."""
    shutil.copytree(compiled, kept)
    (path,) = kept.iterdir()
    assert programs.ensure_programs(("cable",)) is False
    return path


def run(code: str) -> str:
    """Return the output of a new interpreter."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout


def test_compiles_once_and_loads_without_the_compiler(kept: Path) -> None:
    assert programs.ensure_programs() is True
    assert programs.ensure_programs() is False
    assert [path.name.rpartition("-")[0] for path in sorted(kept.iterdir())] == sorted(programs.PROGRAMS)
    assert kept.stat().st_mode & 0o777 == 0o700
    code = (
        "import sys; from hipsnet.node import bpf, programs; program = programs.program_of('forward');"
        "maps = {name: programs.create_map(program, name) for name in program.maps};"
        "info = bpf.program_info(programs.load(program, maps));"
        "assert info.tag in program.tags; print(info.name, len(info.map_ids), 'bcc' in sys.modules,"
        "'libbcc' in open('/proc/self/maps').read())"
    )
    assert run(code).split() == ["hips_forward", "8", "False", "False"]


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"maps": {}}'], ids=["empty", "torn", "list", "incomplete"]
)
def test_a_damaged_entry_is_compiled_again(entry: Path, damage: str) -> None:
    whole = json.loads(entry.read_text())
    entry.write_text(damage)
    programs._read.cache_clear()
    assert programs.ensure_programs(("cable",)) is True
    assert json.loads(entry.read_text())["instructions"] == whole["instructions"]


def test_what_another_user_could_have_written_is_not_loaded(entry: Path) -> None:
    os.chown(entry, 65534, 65534)
    programs._read.cache_clear()
    assert programs.ensure_programs(("cable",)) is True
    assert entry.stat().st_uid == os.geteuid()


def test_two_processes_at_once_leave_a_whole_entry(kept: Path) -> None:
    code = "from hipsnet.node import programs; programs.ensure_programs(('cable',))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    both = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    assert len(list(kept.iterdir())) == 1
    assert programs.ensure_programs(("cable",)) is False


def test_loading_from_two_nodes_shares_nothing(entry: Path) -> None:
    program = programs.program_of("cable")
    ids: set[int] = set()
    for _ in range(2):
        maps = {name: programs.create_map(program, name, 4) for name in program.maps}
        fd = programs.load(program, maps)
        ids.update(bpf.program_info(fd).map_ids)
        for opened in (fd, *maps.values()):
            os.close(opened)
    assert len(ids) == 2 * len(program.maps)


def test_a_missing_source_is_an_error_with_the_compilers_output() -> None:
    with pytest.raises(CapabilityError, match=r"cannot compile nosuch:(?s:.*)nosuch.c(?s:.*)hipsnet doctor"):
        compile_programs(("nosuch",))


def test_a_refused_program_is_an_error_with_the_verifiers_log() -> None:
    with pytest.raises(ProvisionError, match=r"the verifier says(?s:.*)R0"):
        bpf.load_xdp("broken", bytes.fromhex("9500000000000000"))


def test_layouts_come_from_descriptions() -> None:
    described = [
        "row",
        [["a", "unsigned int"], ["b", "unsigned char", [6]], ["__pad_end", "char", [2]]],
        "struct",
    ]
    dtype = dtype_of(described, 12)
    assert dtype.names and dtype.fields
    assert [(name, dtype.fields[name][1]) for name in dtype.names] == [("a", 0), ("b", 4), ("__pad_end", 10)]
    with pytest.raises(ValueError, match="has 12 bytes, not 13"):
        dtype_of(described, 13)
    with pytest.raises(ValueError, match="no layout for the C type 'float'"):
        dtype_of("float", 4)
