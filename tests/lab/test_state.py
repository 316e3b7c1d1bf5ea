# SPDX-License-Identifier: Apache-2.0
"""The state of a fabric under /run/hipsnet: hipsnet refuses to use it if users other than root can write there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hipsnet.errors import ProvisionError
from hipsnet.node import namespace
from orchestrator.lab import state
from orchestrator.lab.locking import locked
from tests.lab.rig import REPOSITORY, Lab, command_line, hipsnet

MakeLab = Callable[..., Lab]
NOBODY = 65534
PAIR = {"kind": "bcube", "n": 2, "levels": 1}


def test_other_users_may_not_write_whatever_the_umask_is(make_lab: MakeLab) -> None:
    lab = make_lab(PAIR, lab={"switch": "lossless"}, link={"delay": "1ms"})
    command = ["sh", "-c", 'umask 0; exec "$@"', "sh", *command_line("provision", lab.file)]
    assert subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True).returncode == 0
    home = state.folder(lab.name)
    modes = {str(path.relative_to(home)): path.stat().st_mode & 0o777 for path in [home, *home.rglob("*")]}
    assert {name: mode for name, mode in modes.items() if mode & 0o022} == {}
    assert (modes["."], modes["record.json"], modes["lock"]) == (0o755, 0o644, 0o600)
    assert len(modes) >= 4, "the soft switch has files there, too"


@pytest.fixture
def record(make_lab: MakeLab) -> Iterator[Path]:
    """The record of a missing fabric."""
    lab = make_lab(PAIR)
    state.write(lab.name, state.Record(str(lab.file), ("s0",)))
    yield state.record_path(lab.name)
    if state.folder(lab.name).exists():
        os.chown(state.folder(lab.name), 0, 0)
        state.folder(lab.name).chmod(0o755)
        state.remove(lab.name)


@pytest.mark.parametrize("command", ["destroy", "provision", "inspect"])
def test_a_folder_that_others_could_write_to_is_refused(record: Path, command: str) -> None:
    lab = json.loads(record.read_text())["file"]
    for owner, mode, words in (
        (NOBODY, 0o755, "belongs to nobody"),
        (0, 0o777, "can be written by others"),
    ):
        os.chown(record.parent, owner, owner)
        record.parent.chmod(mode)
        before = record.read_bytes()
        done = hipsnet(command, lab)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert f"{record.parent} {words}" in done.stderr
        assert record.read_bytes() == before
        assert sorted(path.name for path in record.parent.iterdir()) == [record.name]


def test_a_link_in_place_of_a_part_is_not_written_through(record: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    record.with_name(f".{record.name}.part").symlink_to(victim)
    with pytest.raises(OSError, match="Too many levels"):
        state.write(record.parent.name, state.Record("other", ()))
    assert victim.read_text() == "precious"
    assert state.read(record.parent.name) is not None


def test_a_lock_is_roots_alone(record: Path) -> None:
    with locked(record.parent.name):
        lock = state.lock_path(record.parent.name)
        assert lock.stat().st_mode & 0o777 == 0o600
        try_it = [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            "flock",
            "-n",
            str(lock),
        ]
        done = subprocess.run([*try_it, "true"], capture_output=True, text=True, check=False)
        assert done.returncode == 66 and "Permission denied" in done.stderr


def test_the_wait_for_the_folder_of_namespaces_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every user can lock /run/netns."""
    monkeypatch.setattr(namespace, "_LOCK_S", 0.3)
    namespace.NAMED.mkdir(mode=0o755, parents=True, exist_ok=True)
    holder = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    holder += ["flock", "--no-fork", str(namespace.NAMED), "sh", "-c", "echo locked; exec sleep 60"]
    with subprocess.Popen(holder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        try:
            with pytest.raises(ProvisionError, match=r"/run/netns has been locked .* for 0\.3 s; .*lslocks"):
                namespace.create("hipsnet-never", "hipsnet test")
        finally:
            process.kill()
    assert "hipsnet-never" not in namespace.names()
