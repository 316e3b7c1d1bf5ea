# SPDX-License-Identifier: Apache-2.0
"""`hipsnet schedule`: what it prints, its JSON, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hipsnet.collective.collectives import NAMES, Collective
from hipsnet.errors import InputError
from orchestrator.command_line import app

SERVER_01_STAGES = """\
hips on demo, BCube(3,2): 9 servers, 2 threads, 18 x float32 (72B)
server <01> is rank 1

stage 1 of 4: aggregate
  thread 0, level 0
    p0 -> s00.p0  reduce  [ 0,  3)  12B
    p0 -> s02.p0  reduce  [ 6,  9)  12B
    p0 <- s00.p0  reduce  [ 3,  6)  12B
    p0 <- s02.p0  reduce  [ 3,  6)  12B
  thread 1, level 1
    p1 -> s11.p1  reduce  [12, 15)  12B
    p1 -> s21.p1  reduce  [15, 18)  12B
    p1 <- s11.p1  reduce  [ 9, 12)  12B
    p1 <- s21.p1  reduce  [ 9, 12)  12B

stage 2 of 4: aggregate
"""
SUMMARY = """\
s01.p0 sends 64B, receives 64B
s01.p1 sends 64B, receives 64B
all servers: the busiest port carries 64B, 1.000 x the bound of 64B
4 steps, the longest transfer is 12B
physical limit: 1.024e-06 s
"""


@pytest.fixture
def bcube(tmp_path: Path) -> Path:
    file = tmp_path / "topology.yaml"
    file.write_text("version: 1\nname: demo\nfabric: {kind: bcube, n: 3, levels: 2}\n")
    return file


def schedule(*arguments: str | Path) -> Result:
    """HiPS, unless another algorithm is given."""
    given = [] if "--algorithm" in arguments else ["--algorithm", "hips"]
    return CliRunner().invoke(app, ["schedule", *map(str, arguments), *given])


def test_auto_is_by_size(bcube: Path) -> None:
    for size, stages in (("72B", 2), ("64MiB", 4)):
        for options in ([], ["--algorithm", "auto"]):
            done = CliRunner().invoke(app, ["schedule", str(bcube), "--size", size, *options])
            assert f"stage 1 of {stages}: aggregate" in done.stdout


def test_the_stages_of_server_01(bcube: Path) -> None:
    done = schedule(bcube, "--server", "01", "--size", "72B")
    assert done.exit_code == 0
    assert done.stdout.startswith(SERVER_01_STAGES)
    assert done.stdout.endswith(SUMMARY)


def test_rounds_are_shown_where_there_are_several(bcube: Path) -> None:
    done = schedule(bcube, "--algorithm", "ring", "--size", "72B", "--server", "s22")
    lines = done.stdout.splitlines()
    assert "stage 1 of 2: aggregate" in lines
    assert [line.split("  ")[2] for line in lines if " -> " in line][:8] == [
        f"round {i}" for i in range(1, 9)
    ]


def test_json_holds_all_servers_or_one(bcube: Path) -> None:
    everything = json.loads(schedule(bcube, "--json", "--size", "1MiB", "--dtype", "float16").stdout)
    assert everything["count"] == 1 << 19
    assert len(everything["transfers"]) == 144
    assert sum(port["sent_bytes"] for port in everything["ports"]) == 2 * 8 * (1 << 20)
    assert everything["busiest_port_bytes"] / everything["bound_bytes"] == pytest.approx(1, abs=1e-4)
    one = json.loads(
        schedule(bcube, "--json", "--server", "01", "--size", "1MiB", "--dtype", "float16").stdout
    )
    mine = [t for t in everything["transfers"] if "s01" in (t["source"], t["target"])]
    assert one["transfers"] == mine
    assert one["ports"] == everything["ports"]
    first = {"stage": 0, "thread": 0, "source": "s00", "target": "s01", "op": "reduce"}
    assert first.items() <= mine[0].items()
    assert mine[0]["bytes"] == 2 * mine[0]["length"]


def test_the_variables_of_the_engine_choose_too(bcube: Path) -> None:
    done = CliRunner().invoke(app, ["schedule", str(bcube)], env={"HIPSNET_ALGORITHM": "mesh"})
    assert done.stdout.startswith("mesh on demo")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "all_reduce"])
def test_every_collective(bcube: Path, name: str) -> None:
    root = ("--root", "4") if Collective(name).has_root else ()
    done = schedule(bcube, "--collective", name, *root, "--size", "1440B", "--server", "11")
    assert done.exit_code == 0
    at = " at rank 4" if root else ""
    size = "1 x float32" if name == "barrier" else "360 x float32"
    assert re.match(rf"{name}{at} by hips on demo, BCube.3,2.: 9 servers, . threads?, {size} ", done.stdout)
    # The neighbours of a root forward a little more than the root sends.
    ratios = {"broadcast": "1.167", "reduce": "1.167", "barrier": None}
    ratio = ratios.get(name, "1.000")
    assert ratio is None or f"{ratio} x the bound" in done.stdout


def test_full_sends_whole_vectors(bcube: Path) -> None:
    done = schedule(bcube, "--exchange", "full", "--size", "72B", "--server", "01")
    assert "stage 2 of 2: aggregate" in done.stdout
    assert "    p1 -> s11.p1  merge   [ 0, 18)  72B" in done.stdout
    assert "2 steps, the longest transfer is 72B" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm", "rong"], "allowed: auto, hips, ring, mesh, ps"),
        (["--exchange", "star"], "allowed: mesh, ring, ps, full"),
        (["--one-way"], "one_way requires a torus with ring exchange"),
        (["--servers", "10", "--algorithm", "ps"], "1 to 9"),
        (["--collective", "all_scatter"], "allowed: all_reduce, reduce_scatter"),
        (["--collective", "gather", "--root", "9"], "root: found 9; allowed: 0 to 8"),
        (["--root", "1"], "all_reduce has no root"),
        (["--size", "3B"], "at least one float32"),
        (["--size", "many"], "allowed: a number"),
        (["--dtype", "float8"], "allowed: float"),
        (["--server", "99"], "no server '99'"),
    ],
)
def test_wrong_options(bcube: Path, arguments: list[str], message: str) -> None:
    done = schedule(bcube, *arguments)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert done.stdout == ""
