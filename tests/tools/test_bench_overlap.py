# SPDX-License-Identifier: Apache-2.0
"""`tools/bench overlap`: a small run has a valid report, and nothing is left."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from hipsnet.node import namespace
from tools.benchmarks.overlap import app


def test_a_small_run() -> None:
    done = CliRunner().invoke(app, ["--size", "1MiB", "--rounds", "2", "--json", "-"])
    assert done.exit_code == 0, done.output
    report = json.loads(next(line for line in done.output.splitlines() if line.startswith("{")))
    assert report["bytes"] == 1 << 20
    assert len(report["idle_s"]) == len(report["computing_s"]) == 2
    assert min(report["idle_s"] + report["computing_s"]) > 0
    assert not [name for name in namespace.names() if "bench-overlap" in name]
