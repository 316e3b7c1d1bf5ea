# SPDX-License-Identifier: Apache-2.0
"""Commands on servers, and what becomes of them when the lab goes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hipsnet.node.namespace import NAMED
from tests.lab.rig import REPOSITORY, Lab, command_line, hipsnet, hipsnet_process, run, traces

MakeLab = Callable[..., Lab]


@contextmanager
def sleeper(lab: Lab, node: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that lives on a node until somebody ends it."""
    process = subprocess.Popen(
        command_line("exec", lab.file, node, "--", *command),
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_command_runs_on_its_server_and_its_exit_code_is_handed_on(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.provision()
    done = hipsnet_process("exec", lab.file, "01", "--", "ip", "-o", "-4", "addr", "show", "p0")
    assert "10.0.0.2/30" in done.stdout
    done = hipsnet_process("exec", lab.file, "s01", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    done = hipsnet_process("exec", lab.file, "l0g0", "--", "ip", "-br", "link", "show", "br0")
    assert done.stdout.startswith("br0")
    for arguments in (("s77", "--", "true"), ("s01", "--", "no-such-program")):
        assert hipsnet_process("exec", lab.file, *arguments).returncode == 2


def test_a_destroy_ends_what_runs_on_the_nodes(make_lab: MakeLab) -> None:
    lab = make_lab()
    before = traces(lab.name)
    lab.provision()
    shell = ("sh", "-c", "trap '' TERM; echo ready; while true; do sleep 60; done")
    with (
        sleeper(lab, "s00", *shell) as deaf,
        sleeper(lab, "s01", "sh", "-c", "echo ready; sleep 600") as plain,
    ):
        done = lab.run("destroy")
        assert done.returncode == 0
        assert "processes ended" in done.stdout
        assert (deaf.wait(5) < 0, plain.wait(5) < 0) == (True, True)
    assert traces(lab.name) == before


def test_a_node_deleted_behind_our_back_is_found_by_its_processes(make_lab: MakeLab) -> None:
    lab = make_lab()
    before = traces(lab.name)
    lab.provision()
    with sleeper(lab, "s00", "sh", "-c", "echo ready; sleep 600") as process:
        run("ip", "netns", "del", lab.namespace("s00"))
        assert process.pid in traces(lab.name).processes
        lab.provision()
        assert lab.inspect()["drift"] == 0
        assert process.poll() is None
        assert lab.run("destroy").returncode == 0
        assert process.wait(5) < 0
    assert traces(lab.name) == before


def test_processes_of_others_live_on(make_lab: MakeLab, foreign: Callable[[str], str]) -> None:
    lab = make_lab()
    lab.provision()
    name = foreign(f"{lab.name}x")
    with subprocess.Popen(["nsenter", f"--net={NAMED / name}", "sleep", "600"]) as process:
        time.sleep(0.2)
        assert lab.run("destroy").returncode == 0
        assert process.poll() is None
        process.kill()


def test_nothing_runs_where_nothing_was_provisioned(make_lab: MakeLab) -> None:
    lab = make_lab()
    done = lab.run("exec", "s00", "--", "true")
    assert done.returncode == 2
    assert hipsnet("destroy", lab.name).stdout == f"{lab.name}: nothing to remove\n"
