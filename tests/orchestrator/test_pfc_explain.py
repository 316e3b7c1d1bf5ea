# SPDX-License-Identifier: Apache-2.0
"""`hipsnet pfc explain`, run as a user runs it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from orchestrator.cli import main; main()", "pfc", "explain"]
TEXT = """\
version: 1
name: rack
fabric: {kind: bcube, n: 2, levels: 2}
link: {rate: 100Gbit/s, mtu: 4200}
pfc: {priorities: [3, 4], cable_m: 40, response: 2us, cell: 96B, xoff: 64KiB, buffer: 100MiB}
"""
# At 100 Gbit/s: 4242 B of a frame, 84 of PFC, 2 x 40 m x 5.06 ns, 240 quanta of 64 B, 2 us; a lab's burst of 1 ms.
BYTES = {
    "own frame": 4242,
    "PFC frame": 84,
    "cable": 5060,
    "interface": 15360,
    "response": 25000,
    "burst": 25_000_000,
}


def explain(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run(
        [*COMMAND, str(path), *options], capture_output=True, text=True, timeout=60, cwd=root, check=False
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "topology.yaml"
    path.write_text(TEXT)
    return path


def test_json_has_every_part_of_every_port(file: Path) -> None:
    report = json.loads(explain(file, "--json").stdout)
    groups = {group["kind"]: group for group in report["groups"]}
    assert sorted(groups["server"]["ports"]) == [f"s{a}{b}.p{p}" for a in "01" for b in "01" for p in "01"]
    assert sorted(groups["switch"]["ports"]) == [
        f"l{level}g{g}.p{p}" for level in "01" for g in "01" for p in "01"
    ]
    for group in groups.values():
        found = {term["name"]: term["bytes"] for term in group["terms"]}
        cells = -(-sum(BYTES.values()) * 95 // 97)  # 192/97 times as much
        assert found == BYTES | {"cells": cells, "peer's frame": 4242}
        assert group["headroom_bytes"] == sum(found.values())
        assert report["thresholds"]["3"]["headroom"] == group["headroom_bytes"]
    assert set(report["thresholds"]) == {"3", "4"}
    assert (report["thresholds"]["4"]["xoff"], report["thresholds"]["4"]["xon"]) == (65536, 65536 - 2 * 4214)


def test_the_tables_say_the_same(file: Path) -> None:
    report = json.loads(explain(file, "--json").stdout)
    shown = explain(file).stdout
    assert "8 server ports" not in shown  # all ports are alike: one table
    assert "16 ports (s00.p0, s00.p1, s01.p0, s01.p1, ...) at 100Gbit/s" in shown
    rows = dict(re.findall(r"^│ ([\w' ]+?) +│.*│ +(\d+) │$", shown, re.MULTILINE))
    parts = {term["name"]: str(term["bytes"]) for term in report["groups"][0]["terms"]}
    assert rows == parts | {"headroom": str(report["groups"][0]["headroom_bytes"])}
    assert "lossless: priorities 3, 4" in shown
    assert f"headroom  {rows['headroom']} B (derived)" in shown
    assert "XOFF      65536 B\n" in shown
    assert "XON       57108 B (derived)" in shown


def test_settings_that_can_lose_packets_are_refused_by_key_and_number(file: Path) -> None:
    least = json.loads(explain(file, "--json").stdout)["groups"][0]["headroom_bytes"]
    file.write_text(TEXT.replace("xoff: 64KiB", f"headroom: {least - 1}B"))
    done = explain(file)
    assert (done.returncode, done.stdout) == (2, "")
    assert ":5: pfc.headroom" in done.stderr
    assert f"allowed: {least}B or more" in done.stderr
    file.write_text(TEXT.replace("100MiB", "1MiB"))
    done = explain(file)
    assert done.returncode == 2
    assert "pfc.buffer" in done.stderr


def test_a_file_without_lossless_priorities_has_nothing_to_explain(file: Path) -> None:
    file.write_text("".join(line for line in TEXT.splitlines(True) if not line.startswith("pfc")))
    done = explain(file)
    assert done.returncode == 2
    assert "pfc: the file has no such section" in done.stderr
