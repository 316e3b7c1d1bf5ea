# SPDX-License-Identifier: Apache-2.0
"""Numbers, histories and plans of fabrics as `hipsnet top` prints them."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipsnet.topology import Fabric, Topology, build
from orchestrator.telemetry.fields import ALL, FIELDS, INDEX
from orchestrator.telemetry.monitor import Monitor
from orchestrator.telemetry.ports import WatchedPorts, watch_lab
from orchestrator.telemetry.reading import Reading, empty
from orchestrator.top.app import TopApp
from orchestrator.top.columns import COLUMNS, SORTS
from orchestrator.top.fabric_map import plan
from orchestrator.top.numbers import count, percent, sparkline

_FACTORS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}


@given(st.floats(min_value=0, max_value=2.0**64))
def test_a_number_is_short_and_right_within_half_a_percent(value: float) -> None:
    text = count(value)
    assert len(text) <= 5
    number = re.fullmatch(r"([0-9.]+)([kMGTPE]?)", text)
    assert number
    assert float(number[1]) * _FACTORS[number[2]] == pytest.approx(value, rel=0.005, abs=0.0051)


@given(st.floats(min_value=0))
def test_a_share_above_one_stays_short(share: float) -> None:
    assert len(percent(share)) <= 4


@given(st.floats(min_value=0, max_value=1))
def test_a_share_is_short_and_says_none_for_none_only(share: float) -> None:
    text = percent(share)
    assert len(text) <= 4
    assert (text == "0") == (share == 0)
    if not text.startswith("<"):
        assert float(text) == pytest.approx(share * 100, abs=0.51)


def test_a_value_without_a_counter_is_a_dash() -> None:
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
        {"kind": "leafspine", "leaves": 4, "spines": 2, "servers": 30, "nics": 2},
        {"kind": "dragonfly", "groups": 3, "routers": 2, "servers": 2, "global_links": 1},
    ],
    ids=str,
)
def test_every_server_port_has_its_sign_on_the_plan(fabric: dict[str, object]) -> None:
    topology = Topology.model_validate({"version": 1, "name": "demo", "fabric": fabric})
    ports = watch_lab(topology, build(topology))
    spots = [spot for line in plan(ports) for spot in line]
    shown = {port for spot in spots if spot.is_sign for port in spot.stopped}
    server_ports = {number for number, port in enumerate(ports.ports) if port.role == "server"}
    assert server_ports <= shown
    names = {spot.text for spot in spots}
    assert set(ports.fabric.nodes) <= names


def loaded(ports: WatchedPorts) -> Callable[[], Reading]:
    """Readings one second apart: the longest numbers in every counter, half of them for whole ports only."""
    values = itertools.count()
    time_s = itertools.count()

    def read() -> Reading:
        found = empty(next(time_s), len(ports))
        found.present[:] = found.up[:] = True
        step = next(values)
        priorities = [*ports.lossless, ALL]
        for number, field in enumerate(FIELDS):
            size = 4_560_000_000_000 if field.name in ("rx_bytes", "tx_bytes") else 999_499
            for port in range(len(ports)):
                for priority in priorities if port % 2 else [ALL]:
                    found.store(number, port, priority, size * step)
        found.store(INDEX["rx_pause_us"], slice(None), priorities, 500 * step)  # <0.1 %
        found.store(INDEX["buffer_size_bytes"], slice(None), priorities, 1000)
        return found

    return read


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
def test_columns_of_large_numbers_never_touch(size: tuple[int, int]) -> None:
    topology = Topology.model_validate(
        {
            "version": 1,
            "name": "sixteen-letters-",
            "fabric": {"kind": "bcube", "n": 8, "levels": 2},
            "pfc": {"priorities": (3,)},
        }
    )
    ports = watch_lab(topology, build(topology))

    async def main() -> None:
        app = TopApp(ports, Monitor(ports, loaded(ports)), interval_s=1000)
        async with app.run_test(size=size) as pilot:
            for by, _ in enumerate(SORTS):
                app.table.sort(by, True)
                app.poll()
                await pilot.pause()
                shown = [
                    "".join(segment.text for segment in strip)
                    for strip in app.screen._compositor.render_strips()
                ]
                assert {len(line) for line in shown} == {size[0]}
                for word in ("256 paused", "drops/s", "bit/s sent"):
                    assert word in shown[0]
                table = [
                    line[: app.table.size.width].split() for line in shown[1 : 1 + app.table.size.height]
                ]
                titles = [word.strip("▼") for word in table[0]]
                numbers = [column.title for column in COLUMNS]
                wide = size[0] == 200
                assert titles == [
                    "Port",
                    "Pr",
                    *(["Peer"] if wide else []),
                    *numbers,
                    *(["pause,", "history"] if wide else []),
                ]
                length = len(titles) - wide + 1  # the sign before the port; the history is one word
                assert {len(line) for line in table[1:]} == {length}, table[1:3]
                assert any("*" in word for line in table[1:] for word in line)

    asyncio.run(main())


def test_a_filter_without_a_match_is_reported() -> None:
    ports = watch_lab(*small())

    async def main() -> None:
        app = TopApp(ports, Monitor(ports, loaded(ports)), interval_s=1000)
        async with app.run_test(size=(80, 24)) as pilot:
            app.poll()
            await pilot.press("slash", *"zzz")
            await pilot.pause()
            assert " no line matches 'zzz'; Esc shows all lines" in app.table._strips[1].text
            await pilot.press("escape")
            await pilot.pause()
            assert "no line matches" not in app.table._strips[1].text

    asyncio.run(main())


def small() -> tuple[Topology, Fabric]:
    topology = Topology.model_validate(
        {"version": 1, "name": "demo", "fabric": {"kind": "bcube", "n": 2, "levels": 2}}
    )
    return topology, build(topology)


def test_the_status_line_counts_each_frame_and_each_pause_once() -> None:
    """1000 bytes from s00 over l0g0 to s01, which l0g0 pauses."""
    ports = watch_lab(*small())
    ends = {name: ports.numbers[name] for name in ("s00.p0", "l0g0.p0", "l0g0.p1", "s01.p0")}
    readings = []
    for time_s in (0, 1):
        found = empty(time_s, len(ports))
        found.present[:] = found.up[:] = True
        for sender, receiver in (("s00.p0", "l0g0.p0"), ("l0g0.p1", "s01.p0")):
            found.store(INDEX["tx_bytes"], ends[sender], ALL, 1000 * time_s)
            found.store(INDEX["rx_bytes"], ends[receiver], ALL, 1000 * time_s)
        found.store(INDEX["tx_pause_frames"], ends["l0g0.p1"], ALL, time_s)
        found.store(INDEX["rx_pause_frames"], ends["s01.p0"], ALL, time_s)
        readings.append(found)

    async def main() -> None:
        app = TopApp(ports, Monitor(ports, iter([readings[0], *readings[1:]]).__next__), interval_s=1000)
        async with app.run_test(size=(120, 24)) as pilot:
            await pilot.pause()
            line = "".join(text for text, _ in app.status._line)
            assert " 1 paused" in line and " 8.00kbit/s sent" in line

    asyncio.run(main())
