# SPDX-License-Identifier: Apache-2.0
"""Loads and steps equal the closed forms exactly; no algorithm is below the bound."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsnet.collective import limits
from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.check import check
from hipsnet.collective.collectives import NAMES, Collective
from hipsnet.collective.limits import ClosedForm
from tests.collective.shapes import BCUBES, ROUTED, TORUSES, algorithms, fabric, full


def measured(algorithm: Algorithm, shape: str, count: int) -> ClosedForm:
    """The busiest port's elements over the vector's, step by step, and the steps."""
    report = check(algorithm.build(fabric(shape), count), fabric(shape))
    return ClosedForm(Fraction(report.in_steps, count), report.steps)


@pytest.mark.parametrize("shape", (*BCUBES, *TORUSES, *ROUTED))
def test_flat_algorithms(shape: str) -> None:
    made = fabric(shape)
    ranks, ports = len(made.servers), len(made.servers[0].ports)
    count = ranks * ports * 4
    assert measured(Algorithm("ring"), shape, count) == limits.ring(made)
    assert measured(Algorithm("mesh"), shape, count) == limits.mesh(made)
    for servers in (1, 2, ranks):
        if servers <= ranks:
            bound = limits.ps(made, servers)
            assert measured(Algorithm("ps", servers=servers), shape, servers * ports) == bound


@pytest.mark.parametrize(("n", "levels"), [(3, 2), (2, 3), (4, 1), (3, 3), (4, 2), (8, 2)])
@pytest.mark.parametrize("exchange", ["mesh", "ring", "ps"])
def test_hips_on_bcube(n: int, levels: int, exchange: str) -> None:
    found = measured(Algorithm("hips", (exchange,)), f"bcube({n},{levels})", levels * n**levels * 2)
    assert found == limits.hips_bcube(n, levels, exchange)


@pytest.mark.parametrize("dims", [(3, 3), (4, 4), (6,), (3, 3, 3), (5, 5)])
@pytest.mark.parametrize("one_way", [False, True])
def test_hips_on_a_torus_with_like_sides(dims: tuple[int, ...], one_way: bool) -> None:
    shape = f"torus({','.join(map(str, dims))})"
    count = 2 * len(dims) * prod(dims)
    assert measured(Algorithm("hips", one_way=one_way), shape, count) == limits.hips_torus(dims, one_way)


@pytest.mark.parametrize("dims", [(2, 3, 2), (5, 2, 4), (2, 7), (4, 8), (2, 2), (2, 2, 2), (3, 2, 3, 2)])
def test_unlike_sides_reach_the_bound_too(dims: tuple[int, ...]) -> None:
    """Cut into pieces no port carries more than the bound, but for the elements that do not divide."""
    shape, count = f"torus({','.join(map(str, dims))})", 10**7
    made = fabric(shape)
    report = check(Algorithm("hips").build(made, count), made)
    slack = sum(2 * side for side in dims) * 4 * len(dims)  # one element for each transfer of a port
    assert limits.bound(made) * count <= report.busiest <= limits.bound(made) * count + slack


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from((*BCUBES, *TORUSES, *ROUTED)), st.integers(1, 3000))
def test_nothing_is_below_the_bound(data: st.DataObject, shape: str, count: int) -> None:
    made = fabric(shape)
    report = check(data.draw(algorithms(made)).build(made, count), made)
    assert report.busiest >= limits.bound(made) * count
    # Every contribution leaves N - 1 servers once, and every sum is sent to N - 1.
    assert report.sent.sum() == report.received.sum()
    assert report.sent.sum() >= 2 * (len(made.servers) - 1) * count
    assert report.busiest <= report.in_steps <= report.sent.sum()


@pytest.mark.parametrize(
    "shape", ("bcube(3,2)", "bcube(2,3)", "bcube(4,2)", "bcube(3,3)", "torus(3,3)", "torus(6)")
)
@pytest.mark.parametrize("name", ("reduce_scatter", "all_gather", "gather", "scatter", "all_to_all"))
def test_hips_reaches_the_bound_of_the_others(shape: str, name: str) -> None:
    made = fabric(shape)
    collective, ranks = Collective(name, 1 if Collective(name).has_root else 0), len(made.servers)
    count = ranks * ranks * 12  # a multiple of all threads' shares
    report = check(Algorithm("hips").build(made, collective.total(count, ranks), collective), made)
    assert Fraction(report.busiest, count) == limits.bound(made, name)


@pytest.mark.parametrize("name", ("broadcast", "reduce"))
@pytest.mark.parametrize(
    "shape", ("bcube(2,3)", "bcube(3,2)", "bcube(3,3)", "bcube(8,2)", "torus(3,3)", "torus(4,4)")
)
def test_the_root_sends_or_receives_the_vector_once(shape: str, name: str) -> None:
    """Its neighbours forward more than the bound, by 1/(n-1) of it at most."""
    made = fabric(shape)
    ports, count = len(made.servers[0].ports), 1_200_000
    report = check(Algorithm("hips").build(made, count, Collective(name, 2)), made)
    at_root = (report.sent if name == "broadcast" else report.received)[2]
    assert at_root.tolist() == [count // ports] * ports
    slack = 2 * len(made.servers)  # elements that do not divide
    assert report.busiest <= count * Fraction(1, ports) * (1 + Fraction(1, made.dims[0] - 1)) + slack


@pytest.mark.parametrize("name", ("broadcast", "reduce"))
@pytest.mark.parametrize("algorithm", ("ring", "mesh"))
def test_flat_trees_reach_the_bound(algorithm: str, name: str) -> None:
    made = fabric("fattree(9,2)")
    report = check(Algorithm(algorithm).build(made, 9 * 8 * 16, Collective(name, 3)), made)
    assert report.busiest == limits.bound(made, name) * 9 * 8 * 16


@pytest.mark.parametrize("name", [name for name in NAMES if name != "barrier"])
def test_no_collective_is_below_its_bound(name: str) -> None:
    for shape in ("bcube(3,2)", "torus(4,4)", "torus(2,3,2)", "fattree(5,2)"):
        made = fabric(shape)
        ranks = len(made.servers)
        for algorithm in (Algorithm("ring"), Algorithm("mesh"), full(made)):
            count = ranks * 24
            collective = Collective(name)
            report = check(algorithm.build(made, collective.total(count, ranks), collective), made)
            # The flat algorithms load ports in between, too, where servers forward.
            if name != "all_to_all" or made.shape.hips is None or algorithm.name == "hips":
                assert report.busiest >= limits.bound(made, name) * count


def test_bus_factors_are_those_of_nccl_tests() -> None:
    assert limits.bus_factor("all_reduce", 8) == 1.75
    assert [limits.bus_factor(name, 8) for name in ("reduce_scatter", "all_gather", "all_to_all")] == [
        0.875
    ] * 3
    assert [limits.bus_factor(name, 8) for name in ("broadcast", "reduce", "gather", "scatter")] == [
        1,
        1,
        0.875,
        0.875,
    ]


def test_published_figures() -> None:
    assert [round(float(limits.bound(fabric(shape))), 3) for shape in ("fattree(9,1)", "bcube(3,2)")] == [
        1.778,
        0.889,
    ]
    assert round(float(limits.hips_torus((3, 3), one_way=True).bandwidth), 3) == 0.889
    assert round(float(limits.hips_torus((3, 3), one_way=False).bandwidth), 3) == 0.444
    assert round(float(limits.hips_bcube(8, 3, "mesh").bandwidth), 3) == 0.665


def test_the_limit_in_seconds() -> None:
    limit = limits.limit_s(fabric("bcube(3,2)"), 500_000_000, 64 << 20)
    assert limit == pytest.approx(2 * 8 * (64 << 20) * 8 / (9 * 2 * 500e6))
    assert limits.limit_s(fabric("bcube(3,2)"), None, 64 << 20) is None
