# SPDX-License-Identifier: Apache-2.0
"""`hipsnet predict`: its table, JSON and picture, the comparison with measured times, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hipsnet.errors import InputError
from orchestrator.command_line import app

RUN = [sys.executable, "-c", "from orchestrator.cli import main; raise SystemExit(main())"]


@pytest.fixture
def bcube(tmp_path: Path) -> Path:
    file = tmp_path / "bcube.yaml"
    file.write_text("version: 1\nname: demo\nlink: {rate: 1Gbit/s}\nfabric: {kind: bcube, n: 3, levels: 2}\n")
    return file


@pytest.fixture
def fattree(tmp_path: Path) -> Path:
    file = tmp_path / "fattree.yaml"
    file.write_text("version: 1\nname: tree\nlink: {rate: 1Gbit/s}\nfabric: {kind: fattree, servers: 9}\n")
    return file


def predict(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["predict", *map(str, arguments)])


def results(*arguments: str | Path) -> list[dict[str, Any]]:
    done = predict(*arguments, "--json", "-")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return found


def test_the_table(bcube: Path) -> None:
    done = predict(bcube, "--size", "64MiB", "--latency", "1ms")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "# demo: BCube(3,2), 9 servers with 2 ports at 1Gbit/s"
    assert done.stdout.splitlines()[-1].split() == [
        *("hips", "67108864", "float32", "478218.6", "0.1403", "0.2495"),
        *("478218.5", "481218.5", "477218.6", "1.002"),
    ]
    assert max(map(len, done.stdout.splitlines())) <= 110


def test_all_algorithms_on_two_fabrics(bcube: Path, fattree: Path) -> None:
    found = results(bcube, "--against", fattree, "--algorithm", "all", "--sizes", "1MiB,64MiB")
    assert [(one["fabric"], one["algorithm"], one["bytes"]) for one in found] == [
        (fabric, algorithm, size << 20)
        for fabric, algorithms in (("demo", ("hips", "ring", "mesh", "ps")), ("tree", ("ring", "mesh", "ps")))
        for algorithm in algorithms
        for size in (1, 64)
    ]
    for one in found:
        assert {"limit_s", "closed_s", "barrier_s", "fluid_s"} <= one.keys()
        assert one["limit_s"] <= one["closed_s"] * 1.001
        assert one["closed_s"] <= min(one["barrier_s"], one["fluid_s"]) * 1.001
        assert one["by_routes"] == (one["fabric"] == "demo" and one["algorithm"] != "hips")


def test_only_closed_forms(bcube: Path) -> None:
    (one,) = results(bcube, "--size", "64MiB", "--closed", "--latency", "1ms")
    assert one["fluid_s"] is None
    assert one["barrier_s"] == pytest.approx(0.481219, abs=1e-6)


def test_the_buckets_of_a_model_follow_each_other(bcube: Path) -> None:
    (one,) = results(bcube, "--model", "vgg19", "--rate", "100Gbit/s")
    assert (one["model"], one["bytes"], one["rate_bps"]) == ("vgg19", 574_668_960, 10**11)
    assert one["fluid_s"] == pytest.approx(one["limit_s"], rel=1e-4)


def test_conditions_reach_the_simulation(bcube: Path) -> None:
    def seconds(*options: str) -> float:
        (one,) = results(bcube, "--size", "16MiB", *options)
        return float(one["fluid_s"])

    ideal = seconds()
    assert seconds("--degrade", "s11.p0=50%") == pytest.approx(2 * ideal, rel=1e-2)
    assert seconds("--late", "s01=2s") > 2
    assert seconds("--cpu", "2Gbit/s") == pytest.approx(2 * ideal, rel=1e-2)
    assert ideal <= seconds("--quantum", "100us") < ideal * 1.2
    assert seconds("--exchange", "ring") == pytest.approx(ideal, rel=1e-2)


def test_measured_times_are_set_beside(bcube: Path, tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    fabric = {"kind": "bcube", "dims": [3, 3], "ports_per_server": 2, "rate_bps": 10**9}
    row = {"bytes": 64 << 20, "model": None, "time_s": {"median": 0.5}}
    file.write_text(json.dumps({"fabric": fabric, "algorithm": "hips", "results": [row]}))
    one, other = results(bcube, "--sizes", "64MiB,16MiB", "--measured", file)
    assert (one["measured_s"], other["measured_s"]) == (0.5, None)
    assert one["measured_ratio"] == pytest.approx(0.5 / one["fluid_s"])
    shown = predict(bcube, "--size", "64MiB", "--measured", file)
    assert shown.stdout.splitlines()[-1].split()[-2:] == ["500000.0", f"{one['measured_ratio']:.3f}"]
    slower = results(bcube, "--size", "64MiB", "--measured", file, "--rate", "2Gbit/s")
    assert slower[0]["measured_s"] is None  # measured at another rate


@pytest.mark.parametrize("sizes", ["64MiB", "1MiB,16MiB"])
def test_the_picture_is_the_same_for_the_same_numbers(bcube: Path, tmp_path: Path, sizes: str) -> None:
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for picture in pictures:
        assert predict(bcube, "--sizes", sizes, "--algorithm", "all", "-o", picture).exit_code == 0
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert "mesh, BCube(3,2)" in pictures[0].read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm", "none"], "--algorithm: found 'none'; allowed: hips, ring, mesh, ps, all"),
        (["--algorithm", "ring", "--one-way"], "one_way is an option of hips"),
        (["--latency", "5 parsecs"], "--latency: found '5 parsecs'; allowed: a number with one of"),
        (["--rate", "unlimited"], "--rate: found unlimited; allowed: a rate like 100Gbit/s"),
        (["--degrade", "s11.p0"], "--degrade: found 's11.p0'; allowed: a port and the share"),
        (["--degrade", "s11.p9=0.5"], r"no cable at 's11\.p9'; name a port like s00\.p0"),
        (["--degrade", "s11.p0=0"], "is dead, and the collective needs it"),
        (["--late", "s01=soon"], "--late: found 'soon'"),
        (["--size", "1MiB", "--model", "vgg19"], "--size and --model exclude each other"),
        (["-o", "picture.txt"], r"-o: found picture\.txt; allowed endings: \.svg"),
        (["--measured", "nothing.json"], r"--measured: nothing\.json cannot be read"),
    ],
)
def test_what_is_refused(bcube: Path, arguments: list[str], message: str) -> None:
    done = predict(bcube, *arguments)
    assert isinstance(done.exception, InputError)
    with pytest.raises(InputError, match=message):
        raise done.exception


def test_what_is_too_large_is_refused_or_left_out(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text("version: 1\nname: large\nfabric: {kind: bcube, n: 8, levels: 4}\n")
    done = predict(file, "--algorithm", "mesh", "--size", "1MiB")
    assert "mesh on BCube(8,4) needs the whole schedule: 134,184,960 transfers" in str(done.exception)
    hips, *others = results(file, "--algorithm", "all", "--size", "64MiB", "--closed")
    assert hips["closed_s"] == pytest.approx(hips["limit_s"], rel=1e-3)
    assert [(one["algorithm"], one["closed_s"]) for one in others] == [
        *(("ring", None), ("mesh", None), ("ps", None))
    ]
    assert "6,144 route tables" in others[2]["note"]


def test_a_port_without_a_rate_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(
        "version: 1\nname: demo\nlink: {rate: unlimited}\nfabric: {kind: bcube, n: 3, levels: 2}\n"
    )
    assert "link.rate: found unlimited" in str(predict(file).exception)
    assert predict(file, "--rate", "1Gbit/s", "--size", "1MiB").exit_code == 0


def test_an_interrupt_ends_it_at_once(bcube: Path) -> None:
    """4 KiB chunks of ever larger vectors would take hours."""
    command = [*RUN, "predict", str(bcube), "--sizes", "1MiB:16GiB:x2", "--chunk", "4KiB"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout and running.stderr
        while not running.stdout.readline().lstrip().startswith("hips"):
            pass
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        assert running.stderr.read() == ""
