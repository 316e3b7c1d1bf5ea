# SPDX-License-Identifier: Apache-2.0
"""`tools/bench switch` and `tools/bench pfc-spread`: their reports on running labs, and the picture."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hipsnet.node import namespace
from hipsnet.topology.building import build
from hipsnet.topology.loading import parse
from tools.benchmarks import pause_picture
from tools.benchmarks.switch import app


def test_reports_as_json_and_leaves_nothing() -> None:
    options = ["--seconds", "0.5", "--incast-seconds", "1", "--rates", "", "--json", "-"]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert [row["bytes"] for row in found["capacity"]] == [64, 1078, 4170, 9014]
    assert all(row["pps"] > 0 and 0 < row["core"] < 1.1 for row in found["capacity"])
    with_pfc, without = found["incast"]
    assert (with_pfc["pfc"], with_pfc["lossless_lost"]) == (True, 0)
    assert with_pfc["least_pauses"] > 0
    assert (without["pfc"], without["least_pauses"]) == (False, 0)
    assert without["lossy_lost"] > 0
    assert not any(name.startswith(f"b{os.getpid():x}l-") for name in namespace.names())


def test_what_is_stopped_is_drawn(tmp_path: Path) -> None:
    panels: list[pause_picture.Panel] = []
    for name, section in (("a", "{kind: bcube, n: 3, levels: 2}"), ("b", "{kind: fattree, servers: 4}")):
        topology = parse(f"version: 1\nname: {name}\nfabric: {section}\n", "here")
        fabric = build(topology)
        shares = [1.0 if index < 3 else 0.0 for index in range(len(fabric.links))]
        panels.append((topology, fabric, fabric.kind, shares, f"{fabric.servers[0].name}.p0"))
    file = tmp_path / "spread.svg"
    pause_picture.draw(panels, file)
    text = file.read_text()
    assert "bcube: 3 of 18 cables stopped" in text and "s22" in text
    assert text.count(pause_picture.STOPPED) >= 6
    with pytest.raises(ValueError):
        pause_picture.draw(panels, tmp_path / "spread.nothing")
