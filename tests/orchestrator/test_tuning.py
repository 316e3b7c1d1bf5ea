# SPDX-License-Identifier: Apache-2.0
"""The thresholds that `hipsnet tune` tries, and the one it proposes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hipsnet.topology import Topology, parse
from orchestrator.pfc import tuning_view
from orchestrator.pfc.tuning import Setting, Trial, best, flaw, grid, is_good, present

KIB = 1024
FILE = """\
version: 1
name: demo
fabric: {kind: bcube, n: 3, levels: 1}
link: {rate: 100Mbit/s}
roce: {priority: 3, ecn: {kmin: 50KiB, kmax: 90KiB, pmax: 0.5}}
pfc: {priorities: [3], alpha: 2, xoff: 200KiB, xon: 100KiB}
lab: {switch: lossless, buffer: 2MiB}
"""
TRIAL = Trial(
    Setting(128 * KIB, 64 * KIB, None, None), is_present=False, goodput_bps=99e6, probe_s=0.1, lost=0,
    marks=0, incast_pause_s=2.0, probe_pause_s=0.5,
)  # fmt: skip


@pytest.fixture
def topology() -> Topology:
    return parse(FILE, "demo.yaml")


def test_what_is_tried_begins_with_the_files_own_and_keeps_xon_below_xoff(topology: Topology) -> None:
    found = grid(topology)
    assert found[0] == present(topology) == Setting(200 * KIB, 100 * KIB, 50 * KIB, 90 * KIB)
    assert len(found) == len(set(found)) == 1 + 3 * 2 * 2
    assert {setting.xoff for setting in found[1:]} == {128 * KIB, 256 * KIB, 512 * KIB}
    for setting in found:
        assert setting.xoff and setting.xon and setting.xon < setting.xoff
        assert setting.kmax is None or (setting.kmin or 0) < setting.kmax <= setting.xoff
    assert {setting.xoff for setting in grid(topology, [36 * KIB])[1:]} == {36 * KIB}


def test_every_setting_is_a_file_that_holds_and_says_it(topology: Topology) -> None:
    document = yaml.safe_load(FILE)
    for setting in grid(topology):
        changed = parse(yaml.safe_dump(setting.applied(document)), "tried.yaml")
        assert present(changed) == setting
        assert changed.pfc and topology.pfc and changed.pfc.alpha == topology.pfc.alpha
        assert changed.roce.ecn.pmax == topology.roce.ecn.pmax
        assert changed.lab == topology.lab
    assert yaml.safe_load(FILE) == document


def test_the_yaml_to_paste_is_the_files_sections_with_the_setting(topology: Topology) -> None:
    document = yaml.safe_load(FILE)
    for setting in grid(topology)[1:]:
        pasted = yaml.safe_load(tuning_view.paste(document, setting))
        assert set(pasted) == {"roce", "pfc"}
        changed = parse(yaml.safe_dump(document | pasted), "pasted.yaml")
        assert present(changed) == setting
        assert changed.pfc and (changed.pfc.alpha, changed.roce.ecn.pmax) == (2, 0.5)


def test_of_those_that_are_alike_the_files_own_stays_and_marking_does() -> None:
    marks = replace(TRIAL, setting=replace(TRIAL.setting, kmin=1, kmax=2), incast_pause_s=2.05)
    own = replace(TRIAL, is_present=True, incast_pause_s=2.1)
    worse = replace(own, incast_pause_s=2.7)
    assert best((TRIAL, marks)) is marks
    assert best((TRIAL, marks, own)) is own
    assert best((TRIAL, marks, worse)) is marks


def test_least_pause_wins_among_those_that_lose_nothing_and_are_as_fast() -> None:
    lossy = replace(TRIAL, lost=1, incast_pause_s=0.0, goodput_bps=200e6, probe_s=0.01)
    slow = replace(TRIAL, goodput_bps=90e6, incast_pause_s=0.1)
    late = replace(TRIAL, probe_s=0.2, incast_pause_s=0.1)
    more = replace(TRIAL, probe_pause_s=0.6)
    trials = (lossy, slow, more, late, TRIAL)
    assert [is_good(trial, trials) for trial in trials] == [False, False, True, False, True]
    assert [flaw(trial, trials) for trial in trials] == ["loses", "slow incast", "", "slow sync", ""]
    assert best(trials) is TRIAL
    assert best((lossy,)) is None
    assert tuning_view.as_json(parse(FILE, "f"), yaml.safe_load(FILE), trials)["best"] == {
        "xoff": 128 * KIB, "xon": 64 * KIB, "kmin": None, "kmax": None,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture_holds_every_trial(topology: Topology, tmp_path: Path, kind: str) -> None:
    trials = (replace(TRIAL, is_present=True), replace(TRIAL, setting=Setting(None, None, 1, 2), lost=3))
    output = tmp_path / f"tuned.{kind}"
    tuning_view.draw(topology, trials, output)
    content = output.read_bytes()
    if kind == "png":
        assert content.startswith(b"\x89PNG")
    else:
        text = content.decode()
        assert "file: XOFF 128KiB, XON 64KiB, ECN off" in text
        assert "XOFF 2 x free, ECN 1B-2B" in text
        assert text.count("XOFF ") == 2
