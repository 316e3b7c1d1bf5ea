# SPDX-License-Identifier: Apache-2.0
"""Faults of cables: applied one by one, merged with earlier ones, and undone at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.lab.rig import BCUBE_3_2, Lab, run

MakeLab = Callable[..., Lab]
CABLE = "s00.p1:l1g0.p0"


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    made = make_lab(BCUBE_3_2)
    made.provision()
    return made


def port(lab: Lab, node: str, name: str) -> dict[str, Any]:
    """Return what inspect reports for one port."""
    (found,) = [found for found in lab.inspect()["nodes"] if found["name"] == node]
    (there,) = [found for found in found["ports"] if found["name"] == name]
    return there


def test_faults_merge_and_are_undone_at_once(lab: Lab) -> None:
    for options in (("--rate", "100Mbit/s"), ("--loss", "2.5%"), ("--down",)):
        done = lab.run("impair", CABLE, *options)
        assert done.returncode == 0, done.stderr
    near, far = port(lab, "s00", "p1"), port(lab, "l1g0", "p0")
    assert (near["state"], far["state"]) == ("no carrier", "down")
    assert near["rate_bps"] == far["rate_bps"] == 100_000_000
    assert near["loss_ppm"] == far["loss_ppm"] == 25_000
    assert lab.run("impair", "l1g0.p0", "--up").returncode == 0
    near = port(lab, "s00", "p1")
    assert (near["state"], near["rate_bps"], near["loss_ppm"]) == ("up", 100_000_000, 25_000)
    assert "p1" in "".join(lab.inspect()["nodes"][0]["drift"])
    assert lab.run("impair", "l1g0.p0:s00.p1", "--reset").returncode == 0
    assert lab.inspect()["drift"] == 0
    assert "nothing to change" in lab.run("impair", CABLE, "--reset").stdout


def test_a_cut_cable_breaks_the_paths_that_use_it_and_no_others(lab: Lab) -> None:
    lab.run("impair", CABLE, "--down")
    report = lab.ping()
    broken = {tuple(found["path"]) for found in report["broken"]}
    level_1 = {"s00", "s10", "s20"}
    uses = {way for way in broken if any(set(hop) <= level_1 for hop in pairwise(way))}
    assert broken == uses
    assert ("s00", "s10") in broken and ("s10", "s00") in broken
    assert report["reached"] == report["paths"] - len(broken)
    assert lab.run("ping").returncode == 1
    lab.provision()
    assert lab.ping()["broken"] == []
    assert lab.inspect()["drift"] == 0


def test_a_cable_between_servers_gets_its_routes_back(make_lab: MakeLab) -> None:
    lab = make_lab({"kind": "torus", "dims": [3, 3]})
    lab.provision()
    name = next(link.name for link in lab.load()[1].links)
    lab.run("impair", name, "--down")
    assert lab.ping()["broken"]
    lab.run("impair", name, "--up")
    assert lab.inspect()["drift"] == 0
    assert lab.ping()["broken"] == []


def test_a_loss_loses_that_share_and_a_rate_is_kept(lab: Lab) -> None:
    lab.run("impair", CABLE, "--loss", "100%")
    assert lab.ping()["broken"]
    lab.run("impair", CABLE, "--loss", "0%", "--rate", "unlimited")
    assert lab.ping()["broken"] == []
    assert port(lab, "s00", "p1")["rate_bps"] is None
    assert "htb" not in run("tc", "-n", lab.namespace("s00"), "qdisc", "show", "dev", "p1")


def test_wrong_options_of_impair_are_refused(lab: Lab) -> None:
    for options in (
        (CABLE,), (CABLE, "--up", "--down"), (CABLE, "--reset", "--up"), (CABLE, "--rate", "fast"),
        (CABLE, "--loss", "101%"), (CABLE, "--loss", "5"), ("s00.p7", "--down"),
    ):  # fmt: skip
        done = lab.run("impair", *options)
        assert (done.returncode, done.stdout) == (2, ""), options
    assert lab.inspect()["drift"] == 0


def test_an_impairment_of_a_missing_cable_is_refused(make_lab: MakeLab) -> None:
    done = make_lab().run("impair", "s00.p0", "--down")
    assert done.returncode == 1
    assert "not provisioned" in done.stderr and "hipsnet provision" in done.stderr
