# SPDX-License-Identifier: Apache-2.0
"""`tools/bench stack`: all four loops move data, its report is valid, and nothing is left."""

from __future__ import annotations

import json
import os

import pytest
from typer.testing import CliRunner

from hipsnet.node import namespace, pins
from tools.benchmarks.stack import Turn, app, summarize


def test_reports_as_json_and_leaves_nothing() -> None:
    done = CliRunner().invoke(app, ["--rounds", "1", "--seconds", "0.2", "--pings", "50", "--json", "-"])
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["results"]
    assert min(result.values()) > 0
    assert result["share"] == pytest.approx(result["stack_bytes_s"] / result["bare_bytes_s"])
    ours = f"xsk{os.getpid():x}"
    assert [name for name in (*namespace.names(), *pins.pinned_fabrics()) if name.startswith(ours)] == []


def test_a_ratio_is_of_one_turn() -> None:
    result = summarize([Turn(100, 90, 2, 1), Turn(10, 8, 20, 40), Turn(50, 50, 3, 3)])
    assert (result["share"], result["latency"]) == (0.9, 1.0)
