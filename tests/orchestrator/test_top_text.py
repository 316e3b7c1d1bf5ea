# SPDX-License-Identifier: Apache-2.0
"""Numbers, histories and plans of fabrics, as they stand on the screen."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipsnet.topology import Topology, build
from orchestrator.telemetry.ports import watch_lab
from orchestrator.top.fabric_map import plan
from orchestrator.top.numbers import count, percent, sparkline

_FACTORS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


@given(st.floats(min_value=0, max_value=9e17))
def test_a_number_is_short_and_right_within_half_a_percent(value: float) -> None:
    text = count(value)
    assert len(text) <= 5
    number = re.fullmatch(r"([0-9.]+)([kMGTP]?)", text)
    assert number
    assert float(number[1]) * _FACTORS[number[2]] == pytest.approx(value, rel=0.005, abs=0.0051)


@given(st.floats(min_value=0, max_value=1))
def test_a_share_is_short_and_says_none_for_none_only(share: float) -> None:
    text = percent(share)
    assert len(text) <= 4
    assert (text == "0") == (share == 0)
    if not text.startswith("<"):
        assert float(text) == pytest.approx(share * 100, abs=0.51)


def test_what_nobody_counts_is_a_dash() -> None:
    assert count(None) == percent(None) == count(math.nan) == "-"


@given(st.lists(st.floats(0, 1e9) | st.just(math.nan), max_size=50), st.integers(1, 40))
def test_a_history_is_as_wide_as_it_should_be_and_blank_only_for_nothing(
    values: list[float], width: int
) -> None:
    text = sparkline(np.array(values), width)
    assert len(text) == width
    for value, block in zip(reversed(values), reversed(text), strict=False):
        assert (block == " ") == (not value > 0)


def test_a_history_is_drawn_below_its_top() -> None:
    assert sparkline(np.array([0.0, 1.0, 2.0, 4.0, 8.0]), 6) == "  ▁▂▄█"
    assert sparkline(np.array([0.25, 0.5]), 2, top=1.0) == "▂▄"


@pytest.mark.parametrize(
    "fabric",
    [
        {"kind": "bcube", "n": 3, "levels": 3},
        {"kind": "torus", "dims": (2,)},
        {"kind": "torus", "dims": (4, 3)},
        {"kind": "torus", "dims": (3, 2, 4)},
        {"kind": "fattree", "servers": 16},
    ],
    ids=str,
)
def test_every_server_port_has_its_sign_on_the_plan(fabric: dict[str, object]) -> None:
    topology = Topology.model_validate({"version": 1, "name": "demo", "fabric": fabric})
    ports = watch_lab(topology, build(topology))
    spots = [spot for line in plan(ports) for spot in line]
    shown = {port for spot in spots if spot.is_sign for port in spot.stopped}
    wanted = {number for number, port in enumerate(ports.ports) if port.role == "server"}
    assert wanted <= shown
    names = {spot.text for spot in spots}
    assert set(ports.fabric.nodes) <= names
