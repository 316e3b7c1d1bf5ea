# SPDX-License-Identifier: Apache-2.0
"""Jobs whose programs run as an unprivileged user, over tcp and xdp."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hipsnet.stack.xsk.handover import path_of
from tests.lab.rig import REPOSITORY, Done, Lab, command_line, hipsnet_process

MakeLab = Callable[..., Lab]
NOBODY = pwd.getpwnam("nobody")

SUMS = """
import os, pathlib, sys
import numpy as np, hipsnet
with hipsnet.init() as comm:
    array = np.full(300_000, comm.rank + 1, np.float32)
    comm.all_reduce(array)
    assert (array == 6).all()
status = pathlib.Path("/proc/self/status").read_text()
assert "CapEff:\\t0000000000000000" in status and "Groups:\\t65534 \\n" in status
assert (os.getuid(), os.geteuid(), os.getgid()) == (65534, 65534, 65534)
assert (os.environ["USER"], os.environ["HOME"]) == ("nobody", os.path.expanduser("~nobody"))
pathlib.Path(sys.argv[1], f"rank{comm.rank}").write_text("done")
"""


@pytest.fixture(scope="module")
def lab(make_shared_lab: MakeLab) -> Lab:
    """A ring of three shared by the tests, which do not change it."""
    lab = make_shared_lab({"kind": "torus", "dims": [3]}, link={"rate": "unlimited", "mtu": 9000})
    lab.provision()
    return lab


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder owned by user nobody, with the program and a copy of the topology file."""
    with tempfile.TemporaryDirectory(prefix="hipsnet-nobody-") as folder:
        os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
        (Path(folder) / "sums.py").write_text(SUMS)
        yield Path(folder)


def run(lab: Lab, place: Path, *arguments: object, **environ: str) -> Done:
    """Run `hipsnet run` on a world-readable copy of the file."""
    file = place / "topology.yaml"
    file.write_text(lab.file.read_text())
    done = subprocess.run(
        command_line("run", file, *arguments),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environ},
        cwd=place, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("transport", ["tcp", "xdp"])
def test_a_program_runs_as_the_user(lab: Lab, place: Path, transport: str) -> None:
    for _ in range(2 if transport == "xdp" else 1):  # the first job leaves nothing for the second to find
        done = run(lab, place, "--user", "nobody", "--transport", transport, "--", "python", "sums.py", place)
        assert done.returncode == 0, done.stderr
        files = sorted(place.glob("rank*"))
        assert [file.read_text() for file in files] == ["done"] * 3
        assert {(file.stat().st_uid, file.stat().st_gid) for file in files} == {(65534, 65534)}
        for file in files:
            file.unlink()
    _, fabric = lab.load()
    assert [server for server in fabric.servers if path_of(lab.name, server.name).exists()] == []


def test_a_measurement_runs_as_the_caller_of_sudo(lab: Lab, place: Path) -> None:
    options = ("--transport", "xdp", "--size", "64K", "-n", "2", "-w", "1", "-c")
    files = ("--json", place / "out.json", "--log-dir", place / "logs")
    done = run(lab, place, *options, *files, SUDO_USER="nobody")
    assert done.returncode == 0, done.stderr
    assert '"correct": true' in (place / "out.json").read_text()
    made = [place / "out.json", place / "logs", *(place / "logs").iterdir()]
    assert len(made) == 5 and {file.stat().st_uid for file in made} == {65534}


def test_the_user_may_only_write_what_is_the_users(lab: Lab, place: Path, tmp_path: Path) -> None:
    for option in (("--json", tmp_path / "out.json"), ("--log-dir", tmp_path / "logs")):
        done = run(lab, place, "--user", "nobody", "--size", "1K", *option)
        assert done.returncode == 2
        assert f"{option[0]}: nobody cannot write" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_congestion_control_that_users_may_not_use_is_refused(lab: Lab, place: Path) -> None:
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    restricted = sorted(set(available) - set(allowed))
    if not restricted:
        pytest.skip("a TCP congestion control that is not permitted to users")
    done = run(lab, place, "--user", "nobody", "--congestion", restricted[0], "--", "true")
    assert done.returncode == 2
    assert f"--congestion: found '{restricted[0]}', which the kernel does not permit to nobody" in done.stderr


def test_wrong_users_are_refused(lab: Lab) -> None:
    done = lab.run("run", "--user", "no-such-user", "--", "true")
    assert done.returncode == 2 and "--user: found 'no-such-user'" in done.stderr
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nowhere")
    code = "from orchestrator.lab import account; account.find('root')"
    command = [*as_nobody, sys.executable, "-c", code]
    refused = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    assert "CapabilityError: --user: running programs as root requires root" in refused.stderr


def test_a_program_that_the_user_cannot_run_is_named(lab: Lab, place: Path) -> None:
    private = place / "private"
    private.mkdir()
    (private / "program").write_text("#!/bin/sh\necho never\n")
    (private / "program").chmod(0o755)
    private.chmod(0o700)
    done = run(lab, place, "--user", "nobody", "--", private / "program")
    assert done.returncode == 1
    assert f"{private}/program: Permission denied" in done.stderr and "never" not in done.stdout


def test_without_a_user_the_program_runs_as_root(lab: Lab) -> None:
    done = hipsnet_process("run", lab.file, "--", "id", "-un")
    assert done.stdout.count("root") == 3
