# SPDX-License-Identifier: Apache-2.0
"""`hipsnet list` and `hipsnet shell`: the fabrics on this machine, and a shell in one of their servers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from hipsnet.node import namespace
from orchestrator.jobs import registry
from orchestrator.lab import soft_switch, state
from orchestrator.lab.processes import end
from tests.lab.rig import REPOSITORY, Lab, command_line, hipsnet

MakeLab = Callable[..., Lab]


def listed(name: str) -> dict[str, Any]:
    """The entry of one fabric of `hipsnet list --json`."""
    done = hipsnet("list", "--json")
    assert done.returncode == 0, done.stderr
    found = [fabric for fabric in json.loads(done.stdout) if fabric["name"] == name]
    return found[0] if found else {}


def test_a_fabric_is_listed_from_provision_to_destroy(make_lab: MakeLab) -> None:
    lab = make_lab()
    assert listed(lab.name) == {}
    lab.provision()
    found = listed(lab.name)
    assert (found["shape"], found["servers"], found["state"]) == ("BCube(2,2)", 4, "complete")
    assert found["file"] == str(lab.file) and found["jobs"] == [] and found["processes"] == []
    assert sorted(found["nodes"]["present"]) == sorted(lab.load()[1].nodes)
    with registry.registered(lab.name, "python train.py", "root"):
        (job,) = listed(lab.name)["jobs"]
        assert (job["pid"], job["command"], job["user"]) == (os.getpid(), "python train.py", "root")
        assert f"{lab.name}: job {os.getpid()} of root since " in hipsnet("list").stdout
    hipsnet("destroy", lab.name)
    assert listed(lab.name) == {}


def test_what_is_missing_foreign_or_lost_is_listed(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.provision()
    namespace.delete(lab.namespace("s01"))
    found = listed(lab.name)
    assert (found["state"], found["nodes"]["missing"]) == ("incomplete", ["s01"])
    assert f"`hipsnet destroy {lab.name}` removes it" in hipsnet("list").stdout
    name = lab.namespace("s01")
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        found = listed(lab.name)
        assert (found["state"], found["nodes"]["foreign"]) == ("foreign", [name])
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    state.remove(lab.name)
    found = listed(lab.name)
    assert (found["state"], found["file"], found["shape"]) == ("incomplete", None, None)
    assert "its record is lost" in hipsnet("list").stdout


def test_a_dead_soft_switch_is_listed_with_the_command_that_restarts_it(make_lab: MakeLab) -> None:
    lab = make_lab(lab={"switch": "lossless"}, pfc={})
    lab.provision()
    assert listed(lab.name)["processes"] == [{"name": "soft switch", "running": True, "restart": None}]
    end(process.pid for process in soft_switch.running(lab.name))
    (process,) = listed(lab.name)["processes"]
    assert not process["running"] and process["restart"].startswith("hipsnet provision ")
    assert f"soft switch of {lab.name} is not running" in hipsnet("list").stdout


@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/sh"])
def test_a_shell_runs_in_the_server_and_its_prompt_shows_it(
    make_lab: MakeLab, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab()
    lab.provision()
    monkeypatch.setenv("SHELL", shell)
    ours, theirs = pty.openpty()
    command = command_line("shell", lab.file, "s01")
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=REPOSITORY) as process:
        os.close(theirs)
        os.write(ours, b"ip -o link show dev lo; hostname; exit 7\n")
        output = b""
        try:
            while part := os.read(ours, 4096):
                output += part
        except OSError:  # the shell has ended
            pass
    os.close(ours)
    assert process.returncode == 7
    assert f"[{lab.name} s01] ".encode() in output
    assert b"\ns01\r\n" in output
    assert f"hipsnet {lab.name} s01".encode() in output  # the alias of the server's loopback


def test_a_shell_without_a_terminal_reads_its_commands(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab()
    lab.provision()
    monkeypatch.setenv("SHELL", "/bin/bash")
    command = command_line("shell", lab.file, "s01")
    done = subprocess.run(
        command, input="hostname\n", capture_output=True, text=True, cwd=REPOSITORY, check=False
    )
    assert (done.returncode, done.stdout) == (0, "s01\n")
