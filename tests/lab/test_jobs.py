# SPDX-License-Identifier: Apache-2.0
"""Jobs on real cables: which ones the bytes take, and what a job says of a cable that is cut."""

from __future__ import annotations

import json
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
    """What each port of a node has sent, by the kernel's own interface counters."""
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
    # Warm-up there is none; each iteration sends 2(N-1)/N of the vector, in equal parts by every port.
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
    assert "at level 0" in output and "it has been silent for 3." in output
    assert "rank 4" in output  # s11, by one of its neighbours or by itself of them
    assert "bytes received" in output
    assert "s11" in run("ip", "netns") and not any("endless.py" in line for line in _processes())


def _processes() -> list[str]:
    return run("ps", "-eo", "args").splitlines()
