# SPDX-License-Identifier: Apache-2.0
"""Destroying by name, by file, without a file, or all at once: removes the whole fabric, and nothing else."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable

from hipsnet.stack.xsk import handover
from orchestrator.lab import state
from tests.lab.rig import REPOSITORY, Lab, hipsnet, traces

MakeLab = Callable[..., Lab]


def test_by_file_by_name_and_by_a_file_that_was_edited_or_lost(make_lab: MakeLab) -> None:
    lab = make_lab()
    clean = traces(lab.name)

    def lose() -> object:
        lab.file.unlink()
        return lab.file

    def spoil() -> object:
        lab.file.write_text(f"name: {lab.name}   # broken below\nfabric: [")
        return lab.file

    def rename() -> object:
        lab.edit(name="another")
        return lab.file

    for what in (lambda: lab.file, lambda: lab.name, lose, spoil, rename):
        lab.edit(name=lab.name)
        lab.provision()
        assert traces(lab.name) != clean
        done = hipsnet("destroy", what())
        assert done.returncode == 0, done.stderr
        assert "8 nodes removed" in done.stdout
        assert traces(lab.name) == clean


def test_destroying_a_missing_fabric_is_refused(make_lab: MakeLab) -> None:
    lab, other = make_lab(), make_lab()
    other.provision()
    for name, hint in ((lab.name, ""), (lab.file, f"; `hipsnet provision {lab.file}` makes it")):
        done = hipsnet("destroy", name)
        assert (done.returncode, done.stdout) == (1, "")
        here = f"hipsnet: {lab.name} is not provisioned{hint}; fabrics on this machine: "
        assert done.stderr.startswith(here) and other.name in done.stderr
    assert hipsnet("destroy", lab.file.with_name("no-such.yaml")).returncode == 2
    assert hipsnet("destroy").returncode == 2
    assert hipsnet("destroy", lab.name, "--all").returncode == 2


def test_the_record_may_be_lost(make_lab: MakeLab) -> None:
    lab = make_lab()
    clean = traces(lab.name)
    lab.provision()
    state.remove(lab.name)
    assert hipsnet("destroy", lab.name).returncode == 0
    assert traces(lab.name) == clean


def test_a_record_without_nodes_is_removed(make_lab: MakeLab) -> None:
    """A provision that was killed right after it wrote the record leaves no more than that."""
    lab = make_lab()
    clean = traces(lab.name)
    state.write(lab.name, state.Record(str(lab.file), ("s00", "s01")))
    done = hipsnet("destroy", lab.name)
    assert (done.returncode, done.stdout) == (0, f"{lab.name}: its record removed\n"), done.stderr
    assert traces(lab.name) == clean


def test_the_socket_of_a_killed_endpoints_process_is_removed(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.provision()
    left, other = handover.path_of(lab.name, "s00"), handover.path_of(f"{lab.name}x", "s00")
    left.parent.mkdir(exist_ok=True)
    for path in (left, other):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
    try:
        assert hipsnet("destroy", lab.name).returncode == 0
        assert (left.exists(), other.exists()) == (False, True)
    finally:
        other.unlink()


def test_all_clears_every_fabric_and_nothing_else(make_lab: MakeLab) -> None:
    """Runs in a private mount namespace, in which only the fabrics of this test exist."""
    first, second = make_lab(), make_lab({"kind": "torus", "dims": [3]})
    program = f"""
import json, subprocess, sys
from tests.lab import rig
def hipsnet(*arguments):
    done = rig.hipsnet(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout
for file in sys.argv[1:]:
    hipsnet("provision", file)
subprocess.run(["ip", "netns", "add", "{first.name}-mine"], check=True)
removed = json.loads(hipsnet("destroy", "--all", "--json"))
left = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.split()
again = hipsnet("destroy", "--all")
subprocess.run(["ip", "netns", "del", "{first.name}-mine"], check=True)
print(json.dumps([[found["fabric"] for found in removed], left, again]))
"""
    places = "/run/netns /run/hipsnet"
    hide = f"for place in {places}; do mkdir -p $place; mount -t tmpfs none $place; done"
    done = subprocess.run(
        [
            "unshare", "-m", "sh", "-c",
            f'{hide}; mount -t bpf none /sys/fs/bpf; exec "$@"', "-",
            sys.executable, "-c", program, str(first.file), str(second.file),
        ],
        capture_output=True, text=True, cwd=REPOSITORY, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    removed, left, again = json.loads(done.stdout)
    assert removed == sorted([first.name, second.name])
    assert left == [f"{first.name}-mine"]
    assert again == "no fabric on this machine\n"
