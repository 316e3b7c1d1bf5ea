# SPDX-License-Identifier: Apache-2.0
"""Jobs on real cables: the cables that carry the bytes, and the report of a cut cable."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.rig import BCUBE_3_2, REPOSITORY, Lab, command_line, run

MakeLab = Callable[..., Lab]
TORUS_3_3 = {"kind": "torus", "dims": [3, 3]}

ENDLESS = """
import time, numpy as np, hipsnet
with hipsnet.init() as comm:
    print("in", flush=True)
    while True:
        comm.all_reduce(np.ones(200_000, np.float32))
"""


def sent_bytes(lab: Lab, node: str) -> dict[str, int]:
    """Bytes sent by each port of a node, from the kernel's interface counters."""
    links: list[dict[str, Any]] = json.loads(lab.ip(node, "-j", "-s", "link"))
    return {link["ifname"]: link["stats64"]["tx"]["bytes"] for link in links if link["ifname"] != "lo"}


@pytest.mark.parametrize("fabric", [BCUBE_3_2, TORUS_3_3], ids=["bcube", "torus"])
def test_hips_spreads_its_bytes_over_all_ports(make_lab: MakeLab, fabric: dict[str, Any]) -> None:
    lab = make_lab(fabric, link={"rate": "unlimited", "mtu": 9000})
    lab.provision()
    _, built = lab.load()
    before = {server.name: sent_bytes(lab, server.name) for server in built.servers}
    done = lab.run("run", "--size", "8MiB", "--iters", "3", "--warmup", "0", "--check", "--json", "-")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["correct"] is True
    ports = len(built.servers[0].ports)
    # No warm-up; each iteration sends 2(N-1)/N of the vector, in equal parts over all ports.
    least = 3 * 2 * 8 / 9 * (8 << 20) / ports
    for server in built.servers:
        now = sent_bytes(lab, server.name)
        sent = [now[port.name] - before[server.name][port.name] for port in server.ports]
        assert min(sent) >= least
        assert max(sent) <= 1.02 * min(sent), (server.name, sent)


def test_a_cut_cable_ends_the_job_and_is_named(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(BCUBE_3_2)
    lab.provision()
    program = tmp_path / "endless.py"
    program.write_text(ENDLESS)
    options = ("--timeout", "3", "--warn", "1")
    command = command_line("run", lab.file, *options, "--", sys.executable, program)
    job = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY
    )
    try:
        assert job.stdout is not None
        heard = [job.stdout.readline() for _ in range(9)]
        assert all("in" in line for line in heard), heard
        time.sleep(0.5)
        assert lab.run("impair", "s11.p0", "--down").returncode == 0
        output, _ = job.communicate(timeout=40)
    finally:
        job.kill()
        job.wait()
    assert job.returncode == 1, output
    late_s = re.search(r"it has been silent for (\d+\.\d) s", output)
    assert "at level 0" in output and late_s and float(late_s[1]) >= 3, output
    assert "rank 4" in output  # s11, named by one of its neighbours or by itself
    assert "bytes received" in output
    assert "s11" in run("ip", "netns") and not any("endless.py" in line for line in _processes())


GLOO = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
tensor = torch.arange(100_000.0) + dist.get_rank()
dist.all_reduce(tensor)
assert torch.equal(tensor, 4 * torch.arange(100_000.0) + 6)
print("summed", flush=True)
dist.destroy_process_group()
"""
MPI = """
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
names = ("ompi_mpi_comm_world", "ompi_mpi_long", "ompi_mpi_op_sum")
world, long, total = (ctypes.byref(ctypes.c_char.in_dll(mpi, name)) for name in names)
rank, count = ctypes.c_int(), 100_000
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mine, sums = (ctypes.c_long * count)(*[rank.value + 1] * count), (ctypes.c_long * count)()
assert mpi.MPI_Allreduce(mine, sums, count, long, total, world) == 0
assert set(sums) == {10}
os.write(1, f"rank {rank.value} on {os.uname().nodename}\\n".encode())
mpi.MPI_Finalize()
"""


@pytest.fixture(scope="module")
def quiet_lab(make_shared_lab: MakeLab) -> Lab:
    """A BCube(2,2) shared by the tests, which do not change it."""
    lab = make_shared_lab()
    lab.provision()
    return lab


def without(*names: str) -> dict[str, str]:
    """The environment of a shell without these variables and without an activated virtual environment."""
    environ = {name: value for name, value in os.environ.items() if name not in names}
    return environ | {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}


def test_gloo_works_with_nothing_set(quiet_lab: Lab, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(GLOO)
    before = {node: sent_bytes(quiet_lab, node) for node in ("s00", "s11")}
    command = command_line("run", quiet_lab.file, "--", "python", "train.py")
    environ = without("GLOO_SOCKET_IFNAME") | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("summed") == 4
    assert "cannot be retrieved" not in done.stderr  # the message of c10d for an address without a name
    for node, sent in before.items():
        assert sent_bytes(quiet_lab, node)["p0"] - sent["p0"] > 2 * 3 / 4 * 400_000


def test_open_mpi_works_with_nothing_set(quiet_lab: Lab, tmp_path: Path) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("openmpi-bin: mpirun")
    (tmp_path / "program.py").write_text(MPI)
    before = {node: sent_bytes(quiet_lab, node) for node in ("s00", "s11")}
    command = command_line(
        "exec", quiet_lab.file, "s00", "--", "mpirun", "-H", "s00,s01,s10,s11", "python", "program.py"
    )
    environ = {name: value for name, value in without().items() if not name.startswith(("OMPI", "PMIX"))}
    environ |= {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"rank {rank} on {name}" for rank, name in enumerate(("s00", "s01", "s10", "s11"))
    ]
    for node, sent in before.items():
        assert sent_bytes(quiet_lab, node)["p0"] - sent["p0"] > 800_000


def _processes() -> list[str]:
    return run("ps", "-eo", "args").splitlines()
