# SPDX-License-Identifier: Apache-2.0
"""Flows that share links: max-min fairness against its definition and against SimGrid, latency, starts, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hipsnet.predict.fluid.flows import Lanes, Stuck, independent, run
from hipsnet.predict.network import Network
from tests.collective.shapes import fabric

SIMGRID = Path(__file__).parents[2] / "tools/benchmarks/simgrid_flows.py"


def lanes_of(capacity: list[float], routes: list[list[int]], latency_s: float = 0.0) -> Lanes:
    first = np.cumsum([0, *map(len, routes)])
    links = np.array([link for route in routes for link in route], np.int32)
    zeros = np.zeros(len(routes))
    return Lanes(np.array(capacity), (first, links), zeros + latency_s, zeros)


def ends(lanes: Lanes, sizes: list[int], quantum_s: float = 0.0) -> NDArray[np.float64]:
    program = independent(np.array(sizes, np.uint32), len(lanes))
    applied = run(lanes, program, quantum_s=quantum_s, record=True).applied_s
    assert applied is not None
    return applied


def fair_rates(capacity: list[float], routes: list[list[int]]) -> list[float]:
    """Progressive filling by definition: raise all rates together, and freeze those at a full link."""
    rates: dict[int, float] = {}
    while len(rates) < len(routes):
        left = [
            (capacity[link] - sum(rate * routes[flow].count(link) for flow, rate in rates.items()), link)
            for link in range(len(capacity))
        ]
        shares = [
            (room / sum(routes[flow].count(link) for flow in range(len(routes)) if flow not in rates), link)
            for room, link in left
            if any(link in routes[flow] for flow in range(len(routes)) if flow not in rates)
        ]
        share, bottleneck = min(shares)
        rates |= dict.fromkeys(
            (f for f in range(len(routes)) if f not in rates and bottleneck in routes[f]), share
        )
    return [rates[flow] for flow in range(len(routes))]


def finished(capacity: list[float], routes: list[list[int]], sizes: list[int]) -> list[float]:
    """The end of each flow by definition: rates are computed anew whenever one ends."""
    left, now, found = dict(enumerate(map(float, sizes))), 0.0, [0.0] * len(sizes)
    while left:
        flows = list(left)
        rates = dict(zip(flows, fair_rates(capacity, [routes[flow] for flow in flows]), strict=True))
        first = min(flows, key=lambda flow: left[flow] / rates[flow])
        step = left[first] / rates[first]
        now += step
        left = {flow: bytes - rates[flow] * step for flow, bytes in left.items() if flow != first}
        found[first] = now
    return found


def test_a_shared_link_is_divided_by_max_min_fairness() -> None:
    """The second flow is limited to 3 by the second link, and the first one takes what remains of the first."""
    lanes = lanes_of([10.0, 6.0], [[0], [0, 1], [1]])
    assert ends(lanes, [70, 30, 30]).tolist() == [10.0, 10.0, 10.0]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_flows_end_when_the_definition_says(data: st.DataObject) -> None:
    links = data.draw(st.integers(1, 5))
    capacity = data.draw(st.lists(st.floats(0.5, 100), min_size=links, max_size=links))
    route = st.lists(st.integers(0, links - 1), min_size=1, max_size=4)
    routes = data.draw(st.lists(route, min_size=1, max_size=7))
    sizes = data.draw(st.lists(st.integers(1, 1000), min_size=len(routes), max_size=len(routes)))
    expected = finished(capacity, routes, sizes)
    assert ends(lanes_of(capacity, routes), sizes) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("shape", ["fattree(16,1)", "bcube(4,2)", "torus(4,4)", "dragonfly(3,2)"])
def test_simgrid_agrees_flow_by_flow(shape: str) -> None:
    pytest.importorskip("simgrid", reason="python3-simgrid is needed; tools/setup installs it")
    made = fabric(shape)
    random, ranks = np.random.default_rng(7), len(made.servers)
    src = random.integers(0, ranks, 64)
    dst = (src + random.integers(1, ranks, 64)) % ranks
    sizes = random.integers(1, 10**8, 64)
    network = Network(made, seed=3)
    first, cables = network.routes(src, np.zeros(64, np.int64), dst)
    routes = [cables[a:b].tolist() for a, b in pairwise(first)]
    capacity = (random.integers(1, 40, network.cables) * 1e8 / 8).tolist()
    columns = zip(src.tolist(), dst.tolist(), sizes.tolist(), routes, strict=True)
    flows = [dict(zip(("source", "target", "bytes", "links"), row, strict=True)) for row in columns]
    done = subprocess.run(
        [sys.executable, str(SIMGRID)],
        input=json.dumps({"capacity_Bps": capacity, "flows": flows}),
        capture_output=True, text=True, check=True, timeout=60,
        env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    found = ends(lanes_of(capacity, routes), sizes.tolist())
    assert found == pytest.approx(json.loads(done.stdout)["ends_s"], rel=1e-9)


def test_latency_and_a_late_start() -> None:
    lanes = lanes_of([10.0], [[0], [0]], latency_s=2.0)
    late = Lanes(lanes.capacity_Bps, lanes.routes, lanes.latency_s, np.array([0.0, 3.0]))
    # 30 bytes alone, then both at 5 until the first one has sent its 50; the second has 30 left then.
    assert ends(late, [50, 50]).tolist() == [9.0, 12.0]


def test_a_background_flow_takes_its_share_and_never_ends() -> None:
    lanes = lanes_of([10.0, 2.0], [[0], [0, 1], [0]])
    # The second one is limited to 2, so that the first and the last share 8.
    assert ends(lanes, [40]).tolist() == [10.0]


def test_events_within_the_quantum_are_one() -> None:
    lanes = lanes_of([10.0, 10.0], [[0], [1]])
    assert ends(lanes, [100, 101], quantum_s=0.5).tolist() == [10.1, 10.1]
    assert ends(lanes, [100, 101], quantum_s=0.01).tolist() == [10.0, 10.1]


def test_a_link_without_capacity_is_named() -> None:
    with pytest.raises(Stuck) as stop:
        ends(lanes_of([10.0, 0.0], [[0], [0, 1]]), [10, 10])
    assert stop.value.lane == 1


def test_nothing_to_send() -> None:
    assert ends(lanes_of([10.0], []), []).tolist() == []
