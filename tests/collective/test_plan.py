# SPDX-License-Identifier: Apache-2.0
"""Plans: both ends of a connection agree on its segments, and the dependencies are exactly the chains."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.endpoints import receiver_ports
from hipsnet.collective.plan import compile_plan
from hipsnet.engine.plans import PlanArrays
from tests.collective.shapes import fabric as fabric_of
from tests.engine.world import routes_of

SHAPES = [
    ("bcube(3,2)", Algorithm()),
    ("bcube(2,3)", Algorithm("hips", ("ring", "mesh", "ps"))),
    ("torus(3,3)", Algorithm()),
    ("fattree(5,2)", Algorithm("ring")),
    ("fattree(4,1)", Algorithm("ps", servers=2)),
]
EACH_SHAPE = pytest.mark.parametrize(("shape", "algorithm"), SHAPES, ids=lambda value: str(value))


def plans(shape: str, algorithm: Algorithm, count: int, chunk: int, cuts: list[int]) -> list[PlanArrays]:
    fabric, routes = fabric_of(shape), routes_of(shape, algorithm)
    schedule = algorithm.build(fabric, count)
    ports = receiver_ports(fabric, schedule.transfers)
    return [compile_plan(schedule, rank, mine, ports, chunk, cuts) for rank, mine in enumerate(routes)]


def cases() -> list[tuple[int, int, list[int]]]:
    """(elements, chunk, cuts)"""
    order = random.Random(1)
    counts = [0, 1, 7, 100, 1009, 5000]
    chunks = [3, 64, 10_000]
    return [
        (count, chunk, sorted(order.sample(range(1, count), min(cuts, count - 1))) if count > 1 else [])
        for count in counts
        for chunk in chunks
        for cuts in (0, 1, 6)
    ]


@EACH_SHAPE
def test_both_ends_cut_a_connection_into_the_same_segments(shape: str, algorithm: Algorithm) -> None:
    routes = routes_of(shape, algorithm)
    for count, chunk, cuts in cases():
        made = plans(shape, algorithm, count, chunk, cuts)
        for rank, mine in enumerate(routes):
            for (peer, port, theirs), number in mine.items():
                sent = row(made[rank], made[rank].sends, number)
                got = row(made[peer], made[peer].receives, routes[peer][rank, theirs, port])
                for name in ("start", "length", "number", "thread", "stage", "reduces"):
                    assert (sent[name] == got[name]).all(), (count, chunk, cuts, rank, peer)
                assert (sent["number"] == np.arange(len(sent))).all()


@EACH_SHAPE
def test_segments_are_within_chunk_and_cuts(shape: str, algorithm: Algorithm) -> None:
    for count, chunk, cuts in cases():
        whole = [int(plan.segments["length"].sum()) for plan in plans(shape, algorithm, count, count + 1, [])]
        for plan, elements in zip(plans(shape, algorithm, count, chunk, cuts), whole, strict=True):
            start = plan.segments["start"].astype(np.int64)
            stop = start + plan.segments["length"]
            assert (stop - start).sum() == elements
            assert not len(start) or (stop - start).max() <= plan.longest <= chunk
            for cut in cuts:
                assert not ((start < cut) & (cut < stop)).any()


@EACH_SHAPE
def test_a_segment_waits_for_the_earlier_ones_on_its_elements(shape: str, algorithm: Algorithm) -> None:
    """Element by element: the last receive before it and, for a receive, the sends since then."""
    for count, chunk, cuts in ((1, 64, []), (100, 7, [50]), (300, 64, [1, 299])):
        for plan in plans(shape, algorithm, count, chunk, cuts):
            expected: list[set[int]] = [set() for _ in plan.segments]
            last_receive, readers = [-1] * count, [set[int]() for _ in range(count)]
            for index, segment in enumerate(plan.segments):
                for element in range(segment["start"], segment["start"] + segment["length"]):
                    expected[index] |= {last_receive[element]} - {-1}
                    if segment["sends"]:
                        readers[element].add(index)
                    else:
                        expected[index] |= readers[element]
                        last_receive[element], readers[element] = index, set()
            first, released = plan.releases
            found: list[set[int]] = [set() for _ in plan.segments]
            for index in range(len(plan.segments)):
                for later in released[first[index] : first[index + 1]]:
                    found[later].add(index)
            assert found == expected
            assert plan.waits.tolist() == [len(some) for some in expected]


def row(plan: PlanArrays, rows: tuple[np.ndarray, np.ndarray], number: int) -> np.ndarray:
    first, indices = rows
    return plan.segments[indices[first[number] : first[number + 1]]]
