# SPDX-License-Identifier: Apache-2.0
"""`tools/bench forward`: both ways deliver every frame, its report is valid, and nothing is left."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from hipsnet.node import namespace, pins
from tools.benchmarks.forward import Sample, app, summarize
from tools.benchmarks.three_nodes import send, set_way, three_nodes, udp_frame


def test_both_ways_deliver_every_frame_and_leave_nothing() -> None:
    with three_nodes() as line:
        for way in ("xdp", "kernel", "xdp"):
            set_way(line, way)
            for size in (64, 1414, 3000):
                arrived, _ = send(line, udp_frame(size), 640)
                assert (way, size, arrived) == (way, size, 640)
        assert pins.pinned_nodes(line.fabric) == ("router",)
    assert [name for name in namespace.names() if name.startswith(f"{line.fabric}-")] == []
    assert line.fabric not in pins.pinned_fabrics()


def test_reports_as_json() -> None:
    done = CliRunner().invoke(app, ["--rounds", "1", "--seconds", "0.01", "--sizes", "100", "--json", "-"])
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["results"]
    assert result["size_bytes"] == 100
    assert result["ratio"] == pytest.approx(result["xdp_pps"] / result["kernel_pps"])


def test_refuses_sizes_that_cannot_be_sent() -> None:
    for sizes in ("", "63", "64,3001", "big"):
        done = CliRunner().invoke(app, ["--sizes", sizes])
        assert done.exit_code != 0
        assert "allowed: 64 to 3000" in str(done.exception)


def test_the_median_turn_and_the_median_round_count() -> None:
    turns = [Sample("xdp", 64, 100, 100, second) for second in (0.5, 1, 2)]
    turns += [Sample("kernel", 64, 100, 50, second) for second in (1, 1, 10)]
    (result,) = summarize(turns)
    assert (result["xdp_pps"], result["kernel_pps"], result["ratio"]) == (100, 50, 4)
    assert (result["xdp_arrived"], result["kernel_arrived"]) == (1, 0.5)
    assert result["xdp_best_pps"] == 200
