# SPDX-License-Identifier: Apache-2.0
"""Commands on servers, and their fate when the lab is destroyed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hipsnet.node.namespace import NAMED
from tests.lab.rig import REPOSITORY, Lab, command_line, hipsnet, hipsnet_process, run, traces

MakeLab = Callable[..., Lab]


@contextmanager
def sleeper(lab: Lab, node: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs on a node until it is killed."""
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


NAMES = """
import os, socket
print(os.uname().nodename, socket.gethostbyname("s00"), socket.gethostbyname("s11"))
print(socket.gethostbyname("localhost"), socket.gethostbyaddr("10.0.0.2")[0], socket.gethostbyname("s10.p1"))
"""


def names_and_mounts(lab: Lab) -> tuple[str, bytes, list[str]]:
    """The machine's hostname, hosts file and mounts; of namespaces only the lab's, as others come and go."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    kept = [line for line in mounts if " /run/netns/" not in line or f" /run/netns/{lab.name}-" in line]
    return os.uname().nodename, Path("/etc/hosts").read_bytes(), kept


def test_a_server_resolves_its_own_name_and_the_others(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.provision()
    machine = names_and_mounts(lab)
    _, fabric = lab.load()
    identities = {server.name: str(server.identity) for server in fabric.servers}
    for command in (
        ("exec", lab.file, "s01", "--", "python", "-c", NAMES),
        ("run", lab.file, "--", "python", "-c", NAMES),
    ):
        done = hipsnet_process(*command)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert any(line.endswith(f"s01 {identities['s00']} {identities['s11']}") for line in lines)
        ports = f"127.0.0.1 s01.p0 {fabric.nodes['s10'].ports[1].address.ip}"
        assert any(line.endswith(ports) for line in lines)
    hostname = hipsnet_process("exec", lab.file, "l0g0", "--", "hostname")
    assert hostname.stdout == "l0g0\n"
    assert names_and_mounts(lab) == machine


def test_a_destroy_is_not_held_up_by_the_mounts_of_a_program(make_lab: MakeLab) -> None:
    """A program's mount namespace has copies of the namespace mounts, which are removed with the originals."""
    lab = make_lab()
    before = traces(lab.name)
    lab.provision()
    command = [*command_line("exec", lab.file, "s00", "--"), "nsenter", f"--net=/proc/{os.getpid()}/ns/net"]
    count = f"grep -c ' /run/netns/{lab.name}' /proc/self/mountinfo"
    with subprocess.Popen(
        [*command, "sh", "-c", f"{count}; echo ready; read line; {count}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["8\n", "ready\n"]
        assert lab.run("destroy").returncode == 0
        assert process.communicate("\n", timeout=20)[0] == "0\n"
    assert traces(lab.name) == before


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


def test_a_node_deleted_by_others_is_found_by_its_processes(make_lab: MakeLab) -> None:
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
    assert done.returncode == 1
    assert "not provisioned: s00 is missing; run `hipsnet provision" in done.stderr
    done = hipsnet("destroy", lab.name)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"hipsnet: {lab.name} is not provisioned" in done.stderr
