# SPDX-License-Identifier: Apache-2.0
"""Unprivileged workers on sockets that the privileged process of the node has opened."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hipsnet.errors import TransportError
from hipsnet.stack.ports.loop import core
from hipsnet.stack.xsk.handover import ask, path_of
from tests.lab.rig import REPOSITORY, Lab, command_line, hipsnet_process

MakeLab = Callable[..., Lab]
NOBODY = "65534"
AS_NOBODY = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--bounding-set=-all")

SUMS = """
import os, numpy as np, hipsnet
assert os.getuid() == 65534
with hipsnet.init() as comm:
    array = np.full(300_000, comm.rank + 1, np.float32)
    comm.all_reduce(array)
    assert (array == 6).all()
print("right")
"""


@contextmanager
def handing_over(lab: Lab, nodes: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run `hipsnet endpoints` on these nodes."""
    commands = [command_line("endpoints", lab.file, node, "--everybody") for node in nodes]
    processes = [subprocess.Popen(command, cwd=REPOSITORY) for command in commands]
    try:
        for node in nodes:
            end = time.monotonic() + 60
            while not path_of(lab.name, node).exists():
                assert time.monotonic() < end, f"no listener for {node}"
                time.sleep(0.05)
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            assert process.wait(10) == 0
    assert [node for node in nodes if path_of(lab.name, node).exists()] == []


@contextmanager
def place_for_nobody() -> Iterator[Path]:
    """A folder owned by user nobody."""
    with tempfile.TemporaryDirectory(prefix="hipsnet-nobody-") as folder:
        Path(folder).chmod(0o755)
        cache = Path(folder) / "cache"
        cache.mkdir()
        os.chown(cache, int(NOBODY), int(NOBODY))
        yield Path(folder)


def test_workers_need_no_privilege(make_lab: MakeLab) -> None:
    lab = make_lab({"kind": "torus", "dims": [3]}, link={"rate": "unlimited", "mtu": 9000})
    lab.provision()
    _, fabric = lab.load()
    with place_for_nobody() as folder:
        program, file = folder / "sums.py", folder / "topology.yaml"
        program.write_text(SUMS)
        file.write_text(lab.file.read_text())
        here = (
            "env",
            f"XDG_CACHE_HOME={folder}/cache",
            f"PYTHONPATH={REPOSITORY}",
            *AS_NOBODY,
            sys.executable,
        )
        subprocess.run(
            [*here, "-c", "from hipsnet.stack.ports.loop import core; core()"], check=True, cwd="/"
        )
        command = ("run", file, "--transport", "xdp", "--", *here)
        alone = hipsnet_process(*command, program)
        assert alone.returncode == 1
        assert "let root run `hipsnet endpoints` on this node" in alone.stderr
        with handing_over(lab, [server.name for server in fabric.servers]):
            for _ in range(2):  # the first job leaves nothing for the second to find
                done = hipsnet_process(*command, program)
                assert done.returncode == 0, done.stderr
                assert done.stdout.count("right") == 3


@pytest.fixture
def node(make_lab: MakeLab) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """The Unix socket of a node's `hipsnet endpoints`, and the process."""
    lab = make_lab({"kind": "torus", "dims": [2]}, link={"rate": "unlimited"})
    lab.provision()
    with handing_over(lab, ["s0"]) as (process,):
        yield path_of(lab.name, "s0"), process


@contextmanager
def standing_still(process: subprocess.Popen[bytes]) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def hang_up(path: Path) -> None:
    """Connect, and close before the reply."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
        caller.connect(os.fspath(path))


def test_a_caller_that_disconnects_ends_neither_the_process_nor_a_lease(
    node: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    path, process = node
    with standing_still(process):
        hang_up(path)
        hang_up(path)
    sockets = ask(core(), path)
    assert sockets is not None and len(sockets.sockets) == 1
    with standing_still(process):
        hang_up(path)
    with pytest.raises(TransportError, match="another worker has the sockets of this node"):
        ask(core(), path)
    sockets.close()
    again = ask(core(), path)
    assert again is not None
    again.close()
    assert process.poll() is None


@pytest.mark.parametrize("said", [b"", b"x", b"x" * 5000], ids=["nothing", "a byte", "much"])
def test_a_lease_ends_with_the_connection_only(
    node: tuple[Path, subprocess.Popen[bytes]], said: bytes
) -> None:
    path, _process = node
    sockets = ask(core(), path)
    assert sockets is not None and sockets.giver is not None
    sockets.giver.send(said)
    for _ in range(2):
        with pytest.raises(TransportError, match="another worker has the sockets of this node"):
            ask(core(), path)
    sockets.close()
    again = ask(core(), path)
    assert again is not None
    again.close()


def test_a_second_process_does_not_replace_the_first(make_lab: MakeLab) -> None:
    """It is refused, unless the first one was killed."""
    lab = make_lab({"kind": "torus", "dims": [2]}, link={"rate": "unlimited"})
    lab.provision()
    path = path_of(lab.name, "s0")
    with handing_over(lab, ["s0"]) as (process,):
        refused = lab.run("endpoints", "s0")
        assert refused.returncode == 1
        assert f"process {process.pid} already hands over the sockets of this server" in refused.stderr
        sockets = ask(core(), path)
        assert sockets is not None and process.poll() is None
        sockets.close()
    killed = subprocess.Popen(command_line("endpoints", lab.file, "s0"), cwd=REPOSITORY)
    while not path.exists():
        assert killed.poll() is None
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    assert path.exists()
    with handing_over(lab, ["s0"]):
        while (sockets := ask(core(), path)) is None:
            time.sleep(0.05)
        sockets.close()
