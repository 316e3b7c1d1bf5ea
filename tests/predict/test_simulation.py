# SPDX-License-Identifier: Apache-2.0
"""Simulated collectives: the plan's dependencies, the closed forms, and conditions that are not ideal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cffi import FFI
from numpy.typing import NDArray

from hipsnet.collective import limits
from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.endpoints import receiver_ports
from hipsnet.collective.plan import chunk_elements, compile_plan
from hipsnet.errors import InputError
from hipsnet.predict import simulation
from hipsnet.predict.conditions import Background, Conditions
from hipsnet.predict.fluid import flows
from hipsnet.predict.network import Network
from hipsnet.predict.simulation import simulate
from tests.collective.shapes import fabric

MIB = 1 << 20
COUNT = 64 * MIB // 4


def time_of(
    shape: str,
    algorithm: Algorithm,
    chunk_bytes: int | None = MIB,
    count: int = COUNT,
    seed: int = 0,
    **given: Any,
) -> float:
    """The simulated time at 1 Gbit/s, in seconds."""
    made = fabric(shape)
    network = Network(made, seed)
    return simulate(algorithm.build(made, count), network, 1e9, 4, chunk_bytes, Conditions(**given)).time_s


def limit_of(shape: str) -> float:
    found = limits.limit_s(fabric(shape), 10**9, 4 * COUNT)
    assert found is not None
    return found


def test_transfers_in_one_piece_take_as_long_as_the_closed_form() -> None:
    assert time_of("bcube(3,2)", Algorithm(), None, latency_s=1e-3) == pytest.approx(0.481219, abs=1e-6)
    assert time_of("fattree(9,1)", Algorithm("ring"), None, latency_s=1e-3) == pytest.approx(
        0.970438, abs=1e-6
    )


@pytest.mark.parametrize(
    ("shape", "algorithm"),
    [("bcube(3,2)", Algorithm()), ("torus(3,3)", Algorithm()), ("fattree(9,1)", Algorithm("ring"))],
)
def test_segments_reach_the_limit(shape: str, algorithm: Algorithm) -> None:
    assert time_of(shape, algorithm) / limit_of(shape) == pytest.approx(1.0, abs=5e-5)


def test_segments_hide_latency() -> None:
    """16 steps of 1 ms each add 1 ms: the next step begins while the previous one is under way."""
    ring = Algorithm("ring")
    added = time_of("fattree(9,1)", ring, latency_s=1e-3) - time_of("fattree(9,1)", ring)
    assert added == pytest.approx(1e-3, abs=1e-5)


def test_ways_of_equal_cost_collide_according_to_the_seed() -> None:
    mesh = Algorithm("mesh")
    times = {seed: time_of("fattree(9,1)", mesh, seed=seed) for seed in range(4)}
    assert len(set(times.values())) > 1
    assert times[1] == time_of("fattree(9,1)", mesh, seed=1)
    assert min(times.values()) >= limit_of("fattree(9,1)")


@pytest.mark.parametrize(
    ("shape", "algorithm"),
    [
        *(("bcube(3,2)", Algorithm()), ("torus(2,3,2)", Algorithm()), ("torus(4,4)", Algorithm())),
        *(("bcube(2,3)", Algorithm("hips", ("ps",))), ("fattree(5,3)", Algorithm("ring"))),
        *(("leafspine(3,2)", Algorithm("ps", servers=2)), ("bcube(3,2)", Algorithm("mesh"))),
    ],
)
@pytest.mark.parametrize("count", [5, 997, 100_000])
def test_segments_wait_as_in_the_plans(shape: str, algorithm: Algorithm, count: int) -> None:
    """Gate by gate: a segment waits for as many others as in the plan of its sender and of its receiver."""
    made = fabric(shape)
    schedule = algorithm.build(made, count)
    keys = simulation._keys(Network(made), schedule.transfers)
    _, lane = np.unique(keys, return_inverse=True)
    program = simulation._program(schedule, lane, int(lane.max()) + 1, 4, 64 << 10)
    ports = len(made.servers[0].ports)
    waits = _waits(program)
    lanes = {key: number for number, key in enumerate(np.unique(keys).tolist())}
    far = made.shape.far_ports
    for rank in range(len(made.servers)):
        plan = compile_plan(
            schedule, rank, _connections(made, schedule, rank), receiver_ports(made, schedule.transfers),
            chunk_elements(schedule, 64 << 10, 4),
        )  # fmt: skip
        peers = {number: route for route, number in _connections(made, schedule, rank).items()}
        for segment, expected in zip(plan.segments, plan.waits, strict=True):
            peer, mine, theirs = peers[int(segment["connection"])]
            source, port, target = (rank, mine, peer) if segment["sends"] else (peer, theirs, rank)
            assert far[port] == (theirs if segment["sends"] else mine)
            key = (source * ports + port) * len(made.servers) + target
            number = int(program.first_segment[lanes[key]]) + int(segment["number"])
            assert program.handle.elements[number] == segment["length"]
            assert waits[2 * number + (not segment["sends"])] == expected


def _waits(program: flows.Program) -> NDArray[np.int64]:
    """By gate: how many events it waits for. One that the C code has met twice is counted, and occurs, twice."""

    def column(name: str, length: int) -> NDArray[np.uint32]:
        return np.frombuffer(FFI().buffer(getattr(program.handle, name), 4 * length), np.uint32)

    gates, edges = 2 * program.segments, program.handle.edges
    first, following, gate = column("first", gates), column("edge_next", edges), column("edge_gate", edges)
    found: list[set[int]] = [set() for _ in range(gates)]
    for event, edge in enumerate(first.tolist()):
        while edge != 0xFFFFFFFF:
            found[gate[edge]].add(event)
            edge = int(following[edge])
    waits = np.zeros(gates, np.int64)
    np.add.at(waits, gate, 1)
    assert (waits == column("waits", gates)).all()
    return np.array([len(events) for events in found], np.int64)


def _connections(made: Any, schedule: Any, rank: int) -> dict[tuple[int, int, int], int]:
    entries = receiver_ports(made, schedule.transfers)
    found: dict[tuple[int, int, int], int] = {}
    for row, entry in zip(schedule.transfers, entries.tolist(), strict=True):
        if row["src"] == rank:
            found.setdefault((int(row["dst"]), int(row["level"]), entry), len(found))
        if row["dst"] == rank:
            found.setdefault((int(row["src"]), entry, int(row["level"])), len(found))
    return found


def test_slow_processors_limit_what_servers_send_and_receive() -> None:
    """A server of BCube(3,2) sends and receives 2 Gbit/s each way; with 2 Gbit/s in all it takes twice as long."""
    ideal, limited = time_of("bcube(3,2)", Algorithm()), time_of("bcube(3,2)", Algorithm(), cpu_bps=2e9)
    assert limited / ideal == pytest.approx(2, rel=1e-3)
    slower = time_of("bcube(3,2)", Algorithm(), cpu_bps=4e9, slow={"s11": 0.25})
    assert slower / ideal == pytest.approx(4, rel=0.05)


def test_a_straggler_delays_all() -> None:
    late = time_of("torus(3,3)", Algorithm(), late_s={"s01": 1.0})
    assert 1.0 < late < 1.0 + limit_of("torus(3,3)") * 1.01


def test_a_degraded_cable_delays_all() -> None:
    """Half the rate on one of two ports: that port's share takes twice as long."""
    slow = time_of("bcube(3,2)", Algorithm(), cables={"s11.p0": 0.5})
    assert slow / limit_of("bcube(3,2)") == pytest.approx(2, rel=1e-3)


def test_background_flows_share_cables() -> None:
    """One flow through s00.p0 competes with the two of the collective."""
    ideal = limit_of("bcube(3,2)")
    shared = time_of("bcube(3,2)", Algorithm(), background=(Background("s00", "s01"),))
    limited = time_of("bcube(3,2)", Algorithm(), background=(Background("s00", "s01", 1e8),))
    assert ideal * 1.05 < limited < shared
    assert limited == pytest.approx(ideal / 0.9, rel=1e-2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cables": {"s11.p0": 0.0}}, r"s11\.p0 -> l0g1\.p1 is dead|l0g1\.p1 -> s11\.p0 is dead"),
        ({"cables": {"s11.p7": 0.5}}, r"no cable at 's11\.p7'; name a port like s00\.p0"),
        ({"cables": {"s11.p0": 2}}, r"cables: found 2 for s11\.p0; allowed: 0 to 1"),
        ({"late_s": {"nobody": 1}}, "no server 'nobody'"),
        ({"latency_s": -1.0}, "latency_s: found -1.0; allowed: 0 or more seconds"),
        ({"slow": {"s00": 0.5}}, "slow: needs cpu_bps"),
        ({"cpu_bps": 0.0}, "cpu_bps: found 0.0; allowed: a positive rate"),
        ({"background": (Background("s00", "s00"),)}, "a flow from s00 to itself"),
    ],
)
def test_conditions_that_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        time_of("bcube(3,2)", Algorithm(), **given)


def test_progress_is_reported() -> None:
    made = fabric("bcube(3,3)")
    seen: list[tuple[int, int]] = []
    simulate(
        Algorithm().build(made, 1 << 24), Network(made), 1e9, 4, 4096, progress=lambda *at: seen.append(at)
    )
    assert seen
    assert seen == sorted(seen)
    assert all(0 < done < total for done, total in seen)


def test_an_empty_vector_takes_no_time() -> None:
    assert time_of("bcube(3,2)", Algorithm(), count=0) == 0
