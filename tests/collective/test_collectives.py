# SPDX-License-Identifier: Apache-2.0
"""Every collective is what it is defined to be, on every fabric and by every algorithm; the checker proves it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.check import check
from hipsnet.collective.collectives import NAMES, Collective
from hipsnet.collective.schedule import COPY, MERGE, ORDER, REDUCE, TRANSFER, Schedule
from hipsnet.errors import InputError, ScheduleError
from hipsnet.topology import Fabric
from tests.collective.oracle import execute, is_right
from tests.collective.shapes import BCUBES, ROUTED, TORUSES, algorithms, fabric, full

OTHERS = tuple(name for name in NAMES if name != "all_reduce")
SMALL = ("bcube(3,2)", "bcube(2,3)", "bcube(4,1)", "torus(3,3)", "torus(2,3,2)", "torus(5)", "fattree(5,2)")


@st.composite
def schedules(draw: st.DrawFn, shapes: tuple[str, ...], most: int) -> tuple[Fabric, Schedule]:
    """A fabric, and the schedule of a collective on it: with any root, with equal or other shares."""
    made = fabric(draw(st.sampled_from(shapes)))
    ranks = len(made.servers)
    name = draw(st.sampled_from(NAMES))
    root = draw(st.integers(0, ranks - 1)) if Collective(name).has_root else 0
    count = Collective(name).total(draw(st.integers(0, most)), ranks)
    counts: tuple[int, ...] = ()
    if Collective(name).has_shares and draw(st.booleans()):
        parts = ranks**2 if name == "all_to_all" else ranks
        seed = draw(st.integers(0, 1 << 30))
        counts = tuple(np.random.default_rng(seed).integers(0, 1 + 2 * most // ranks, parts).tolist())
        count = sum(counts)
    algorithm = full(made) if draw(st.booleans()) else draw(algorithms(made, name))
    return made, algorithm.build(made, count, Collective(name, root, counts))


@settings(max_examples=200, deadline=None)
@given(schedules((*BCUBES, *TORUSES, *ROUTED), 200))
def test_every_collective_is_what_it_is_defined_to_be(case: tuple[Fabric, Schedule]) -> None:
    made, schedule = case
    check(schedule, made)
    if len(schedule.transfers) * schedule.count < 2_000_000:
        assert is_right(schedule)


@pytest.mark.parametrize("shape", (*BCUBES, *TORUSES, *ROUTED))
def test_full_adds_in_the_same_order_on_every_server(shape: str) -> None:
    made = fabric(shape)
    schedule = full(made).build(made, 50)
    check(schedule, made)
    values = np.random.default_rng(1).normal(size=(len(made.servers), 50)) * 10.0 ** np.arange(-25, 25)
    result = execute(schedule, values)
    assert len({row.tobytes() for row in result}) == 1
    np.testing.assert_allclose(result[0], values.sum(0), rtol=1e-9)


@pytest.mark.parametrize("shape", (*BCUBES, *TORUSES))
@pytest.mark.parametrize("name", OTHERS)
def test_hips_needs_one_hop_only(shape: str, name: str) -> None:
    made = fabric(shape)
    collective = Collective(name)
    exchange = (
        ("ring",) if made.kind == "torus" else ()
    )  # barrier: a torus of side 4 has no full exchange in one hop
    schedule = Algorithm("hips", exchange).build(
        made, collective.total(len(made.servers) * 4, len(made.servers)), collective
    )
    for t in schedule.transfers:
        port = made.servers[t["src"]].ports[t["level"]]
        end = made.servers[t["dst"]].ports[made.shape.far_ports[t["level"]]]
        here, there = made.peer(port), made.peer(end)
        assert here == end if made.kind == "torus" else here.node == there.node


@pytest.mark.parametrize("shape", ("bcube(3,2)", "bcube(4,2)", "bcube(2,3)", "torus(3,3)", "fattree(5,2)"))
@pytest.mark.parametrize("name", [name for name in OTHERS if name != "all_to_all"])
def test_full_takes_a_step_for_each_level(shape: str, name: str) -> None:
    made = fabric(shape)
    report = check(full(made).build(made, 1000, Collective(name)), made)
    assert report.steps == (1 if made.shape.hips is None else len(made.dims))


def test_full_with_shares_sends_one_range_to_each_neighbour() -> None:
    made = fabric("bcube(4,2)")
    for name in ("all_gather", "reduce_scatter"):
        transfers = full(made).build(made, 1600, Collective(name)).transfers
        assert len(transfers) == 16 * 2 * 3


def planted(schedule: Schedule, transfers: NDArray[Any]) -> Schedule:
    """The same schedule with other transfers, sorted."""
    transfers = transfers[np.lexsort([transfers[column] for column in reversed(ORDER)])]
    s = schedule
    return Schedule(s.algorithm, s.world_size, s.count, s.threads, transfers, s.collective)


def refused_or_right(changed: Schedule, made: Fabric) -> bool:
    """Return whether the checker refuses a schedule; what it accepts does what its collective requires."""
    try:
        check(changed, made)
    except ScheduleError as error:
        assert "is wrong" not in str(error)  # every fault has an explanation
        return True
    assert is_right(changed)
    return False


@settings(max_examples=150, deadline=None)
@given(schedules(SMALL, 60), st.data())
def test_a_transfer_that_is_lost_or_doubled(case: tuple[Fabric, Schedule], data: st.DataObject) -> None:
    made, schedule = case
    rows = schedule.transfers
    if not len(rows):
        return
    index = data.draw(st.integers(0, len(rows) - 1))
    assert refused_or_right(planted(schedule, np.delete(rows, index)), made)
    assert refused_or_right(planted(schedule, np.insert(rows, index, rows[index])), made)


@settings(max_examples=150, deadline=None)
@given(schedules(SMALL, 60), st.data())
def test_what_is_accepted_is_right(case: tuple[Fabric, Schedule], data: st.DataObject) -> None:
    made, schedule = case
    rows = schedule.transfers.copy()
    if len(rows) < 2:
        return
    one, other = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=2, max_size=2, unique=True))
    column = data.draw(st.sampled_from([*(TRANSFER.names or ()), "swap"]))
    if column == "swap":
        ends = ["src", "dst", "level"]
        rows[ends][[one, other]] = rows[ends][[other, one]]
        rows[one], rows[other] = rows[other], rows[one].copy()
    else:
        rows[one][column] = max(0, int(rows[one][column]) + data.draw(st.integers(-3, 3)))
    refused_or_right(planted(schedule, rows), made)


def merging(ranks: int, *rows: tuple[int, int, int, int]) -> tuple[Schedule, Fabric]:
    """A schedule of transfers (stage, source, destination, operation) of a whole vector of 4 elements."""
    made = fabric(f"fattree({ranks},1)")
    table = np.array([(0, stage, 0, src, dst, 0, 0, 4, op) for stage, src, dst, op in rows], TRANSFER)
    return planted(Algorithm("mesh").build(made, 4), table), made


PAIR = ((0, 0, 1, MERGE), (0, 1, 0, MERGE))


@pytest.mark.parametrize(
    ("ranks", "rows", "message"),
    [
        (3, (*PAIR, (1, 2, 0, MERGE), (1, 2, 1, MERGE), (1, 0, 2, MERGE)), None),
        (
            4,
            (
                *PAIR,
                *((1, 2, 0, MERGE), (1, 3, 0, MERGE), (1, 2, 3, MERGE), (1, 3, 2, MERGE)),
                *((2, 2, 1, MERGE), (2, 1, 2, MERGE), (2, 1, 3, MERGE)),
            ),
            r"ranks 0 and 1 add the contributions to \[0, 4\) in different orders",
        ),
        (
            3,
            (*PAIR, (1, 2, 0, MERGE), (1, 2, 1, MERGE), (2, 0, 2, COPY)),
            r"transfer 4 .* overwrites 1 of 3 contributions to \[0, 4\) at rank 2",
        ),
        (
            3,
            (*PAIR, (1, 0, 2, MERGE), (1, 1, 2, MERGE)),
            r"transfer 3 .* adds the contribution of rank 1 to \[0, 4\) of rank 2 again",
        ),
        (
            2,
            ((0, 0, 1, MERGE), (1, 0, 1, REDUCE)),
            r"transfer 1 .* gives \[0, 4\) away, which rank 0 has merged by transfer 0",
        ),
        (
            3,
            ((0, 0, 1, MERGE), (0, 0, 2, REDUCE)),
            r"transfer 0 .* merges \[0, 4\), which another transfer of the same round changes",
        ),
        (2, ((0, 0, 1, MERGE),), r"mesh: rank 0 ends with 1 of 2 contributions"),
    ],
)
def test_merges(ranks: int, rows: tuple[tuple[int, int, int, int], ...], message: str | None) -> None:
    schedule, made = merging(ranks, *rows)
    if message is None:
        check(schedule, made)
        assert is_right(schedule)
    else:
        with pytest.raises(ScheduleError, match=message):
            check(schedule, made)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Collective("all_scatter"), "allowed: all_reduce, reduce_scatter"),
        (lambda: Collective("all_gather", 1), "all_gather has no root"),
        (lambda: Collective("broadcast", 0, (1, 2)), "broadcast has no shares"),
        (lambda: Collective("gather", 0, (1, -2)), "found -2; allowed: 0 or more"),
        (lambda: Collective("broadcast", 9).terms(10, 9), "root: found 9; allowed: 0 to 8"),
        (lambda: Collective("gather", 0, (1, 2)).shares(3, 3), "3 numbers with the sum 3"),
        (lambda: Collective("gather", 0, (1, 2, 3)).shares(7, 3), "found 3 numbers with the sum 6"),
        (
            lambda: Algorithm("ps").build(fabric("bcube(3,2)"), 9, Collective("gather")),
            "ps is not defined for gather",
        ),
        (
            lambda: Algorithm("hips", ("mesh", "ps")).build(fabric("bcube(3,2)"), 9, Collective("reduce")),
            "exchange: ps is not defined for reduce",
        ),
        (
            lambda: Algorithm("hips", ("mesh", "full")).build(fabric("bcube(3,2)"), 9),
            "full is for all levels or none",
        ),
        (lambda: Algorithm("ring", ("full",)), "exchange is an option of hips"),
    ],
)
def test_wrong_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
