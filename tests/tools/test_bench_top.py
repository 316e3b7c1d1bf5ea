# SPDX-License-Identifier: Apache-2.0
"""`tools/bench top` on a small fabric: it reports the CPU time of a live `top`."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from typer.testing import CliRunner

from tools.benchmarks.top import app

GROUP_OF_2 = "{kind: bcube, n: 2, levels: 1}"


@pytest.mark.skipif(os.geteuid() != 0, reason="root: makes network namespaces")
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux: a real terminal")
def test_the_cost_of_a_live_top_beside_an_incast_and_alone() -> None:
    options = ["--fabric", GROUP_OF_2, "--seconds", "3", "--sizes", "80x24", "--incast", "--json", "-"]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["results"]
    assert [(cost["terminal"], cost["incast"]) for cost in found] == [("80x24", False), ("80x24", True)]
    assert all(cost["seconds"] >= 3 for cost in found)
    shares = [cost["user"] + cost["system"] for cost in found]
    assert max(shares) < 1 and sum(shares) > 0  # one alone may be below the clock's tick of 10 ms


def test_an_invalid_size_is_refused() -> None:
    done = CliRunner().invoke(app, ["--sizes", "large"])
    assert done.exit_code != 0 and "columns x lines" in str(done.exception)
