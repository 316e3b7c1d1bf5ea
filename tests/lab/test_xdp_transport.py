# SPDX-License-Identifier: Apache-2.0
"""`hipsnet run --transport xdp` on real cables: all algorithms, on BCube and on a torus."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hipsnet.node.forwarding import read_counters
from tests.lab.rig import BCUBE_3_2, Lab, hipsnet_process

MakeLab = Callable[..., Lab]
TORUS_3_3 = {"kind": "torus", "dims": [3, 3]}

# All cases in one program: starting nine interpreters takes longer than the cases.
SUMS = """
import numpy as np, hipsnet
for algorithm in ("hips", "ring", "mesh", "ps"):
    with hipsnet.init(algorithm=algorithm) as comm:
        for size in (1, 250, 16384, 262144):
            array = (np.arange(size) % 7 + comm.rank).astype(np.float32)
            comm.all_reduce(array)
            expected = (np.arange(size) % 7) * 9 + 36
            assert np.array_equal(array, expected), (algorithm, size)
print("right")
"""


@pytest.mark.parametrize("fabric", [BCUBE_3_2, TORUS_3_3], ids=["bcube", "torus"])
def test_every_algorithm_sums(make_lab: MakeLab, tmp_path: Path, fabric: dict[str, Any]) -> None:
    lab = make_lab(fabric, link={"rate": "1Gbit/s", "mtu": 9000})
    lab.provision()
    _, built = lab.load()
    done = lab.run("run", "--transport", "xdp", "--size", "1MiB", "--iters", "2", "--check", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["correct"] is True
    program = tmp_path / "sums.py"
    program.write_text(SUMS)
    done = hipsnet_process("run", lab.file, "--transport", "xdp", "--", sys.executable, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == len(built.servers)
    # RoCE on every port of every server; ARP and ping work before and after.
    for server in built.servers:
        assert (read_counters(lab.name, server.name)["local_roce"] > 100).all()
    assert lab.run("ping").returncode == 0
