# SPDX-License-Identifier: Apache-2.0
"""Leaf-spine and Dragonfly in the lab: provisioned, pinged over every path, synchronized on, and removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.rig import Lab, traces

MakeLab = Callable[..., Lab]

LEAF_SPINE = {"kind": "leafspine", "leaves": 2, "spines": 2, "servers": 2, "nics": 2}
DRAGONFLY = {"kind": "dragonfly", "groups": 3, "routers": 2, "servers": 1, "global_links": 1}
LOSSLESS: dict[str, Any] = {"lab": {"switch": "lossless"}, "pfc": {"priorities": [3]}}


@pytest.mark.parametrize(
    ("fabric", "sections", "algorithms", "paths"),
    [
        (LEAF_SPINE, {}, ("ring", "ps"), 2 * 4 * 3),
        (LEAF_SPINE, LOSSLESS, (), 2 * 4 * 3),
        (DRAGONFLY, {}, ("mesh",), 6 * 5),
    ],
    ids=["leaf-spine", "lossless leaf-spine", "dragonfly"],
)
def test_a_switched_kind_carries_traffic(
    make_lab: MakeLab,
    fabric: dict[str, object],
    sections: dict[str, Any],
    algorithms: tuple[str, ...],
    paths: int,
    tmp_path: Path,
) -> None:
    lab = make_lab(fabric, **sections)
    clean = traces(lab.name)
    lab.provision()
    assert (lab.provision(), lab.inspect()["drift"]) == ([], 0)
    found = lab.ping()
    assert (found["reached"], found["paths"]) == (paths, paths)
    for algorithm in algorithms:
        results = tmp_path / f"{algorithm}.json"
        done = lab.run("run", "--algorithm", algorithm, "--size", "64KiB", "--check", "--json", results)
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(results.read_text())["results"]
        assert (result["wrong"], result["bytes"]) == (0, 65536)
    refused = lab.run("run", "--algorithm", "hips", "--size", "64KiB")
    assert refused.returncode == 2
    assert "its servers have no levels of one-hop neighbours; use ring, mesh or ps" in refused.stderr
    assert lab.run("destroy").returncode == 0
    assert traces(lab.name) == clean
