# SPDX-License-Identifier: Apache-2.0
"""The checker detects planted faults and names the transfer."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.check import check
from hipsnet.collective.schedule import COPY, ORDER, REDUCE, TRANSFER, Schedule
from hipsnet.errors import ScheduleError
from tests.collective.oracle import is_right
from tests.collective.shapes import algorithms, fabric

Rows = NDArray[Any]
NAMED = r"transfer \d+ \(stage|\w+: no transfer brings the sum of \[.* to rank|\w+: rank \d+ ends with"
SHAPES = ("bcube(3,2)", "bcube(2,3)", "torus(3,3)", "torus(2,3,2)", "fattree(5,2)")


def planted(schedule: Schedule, transfers: Rows) -> Schedule:
    """The same schedule with other transfers, sorted."""
    transfers = transfers[np.lexsort([transfers[column] for column in reversed(ORDER)])]
    return Schedule(schedule.algorithm, schedule.world_size, schedule.count, schedule.threads, transfers)


def fault(schedule: Schedule, shape: str) -> str:
    """Return the checker's message for an invalid schedule."""
    with pytest.raises(ScheduleError) as caught:
        check(schedule, fabric(shape))
    return str(caught.value)


@st.composite
def schedules(draw: st.DrawFn) -> tuple[str, Schedule, int]:
    """A shape, a correct schedule on it, and one of its transfers."""
    shape = draw(st.sampled_from(SHAPES))
    schedule = draw(algorithms(fabric(shape))).build(fabric(shape), draw(st.integers(20, 400)))
    return shape, schedule, draw(st.integers(0, len(schedule.transfers) - 1))


def piece(transfer: Any) -> str:
    return rf"\[{transfer['offset']}, {transfer['offset'] + transfer['length']}\)"


@settings(max_examples=100, deadline=None)
@given(schedules())
def test_a_lost_transfer(case: tuple[str, Schedule, int]) -> None:
    shape, schedule, index = case
    lost = schedule.transfers[index]
    message = fault(planted(schedule, np.delete(schedule.transfers, index)), shape)
    if lost["op"] == REDUCE:
        # The incomplete sum is copied, or the sender is overwritten while it still has its contribution.
        assert re.match(r"transfer \d+ .* (copies \d+ of \d+ contributions|overwrites)", message)
        assert re.search(rf"still at rank .*\b{lost['src']}\b|overwrites .* at rank {lost['src']}\b", message)
    else:
        assert f"rank {lost['dst']}" in message
        assert re.search(r"no transfer brings the sum|gave away", message)


@settings(max_examples=100, deadline=None)
@given(schedules())
def test_a_doubled_transfer(case: tuple[str, Schedule, int]) -> None:
    shape, schedule, index = case
    message = fault(planted(schedule, np.insert(schedule.transfers, index, schedule.transfers[index])), shape)
    assert message.startswith(f"transfer {index + 1} ")
    assert "twice in a round" in message


@settings(max_examples=100, deadline=None)
@given(schedules())
def test_a_transfer_that_comes_too_early(case: tuple[str, Schedule, int]) -> None:
    shape, schedule, index = case
    transfers = schedule.transfers.copy()
    moved = transfers[index]
    if moved["round"]:
        moved["round"] -= 1
    elif moved["stage"]:
        before = (transfers["stage"] == moved["stage"] - 1) & (transfers["thread"] == moved["thread"])
        moved["stage"] -= 1
        moved["round"] = transfers["round"][before].max(initial=0)
    else:
        return
    early = planted(schedule, transfers)
    if is_right(early):
        return  # a parameter server has the sum before it sends it
    message = fault(early, shape)
    assert re.match(r"transfer \d+ \(stage", message)
    assert re.search(
        r"another transfer of the same round writes|copies \d+ of|too early|gave away|twice", message
    )


@settings(max_examples=100, deadline=None)
@given(schedules(), st.sampled_from((-1, 1)), st.sampled_from(("offset", "length")))
def test_a_wrong_range(case: tuple[str, Schedule, int], by: int, column: str) -> None:
    shape, schedule, index = case
    transfers = schedule.transfers.copy()
    transfers[index][column] += by
    assert re.match(
        r"transfer \d+ \(|\w+: no transfer brings|\w+: rank", fault(planted(schedule, transfers), shape)
    )


@settings(max_examples=100, deadline=None)
@given(schedules())
def test_a_wrong_operation(case: tuple[str, Schedule, int]) -> None:
    shape, schedule, index = case
    transfers = schedule.transfers.copy()
    transfers[index]["op"] = COPY if transfers[index]["op"] == REDUCE else REDUCE
    message = fault(planted(schedule, transfers), shape)
    assert message.startswith(f"transfer {index} ")
    assert re.search(r"copies \d+ of \d+ contributions|gave away", message)


@settings(max_examples=300, deadline=None)
@given(schedules(), st.sampled_from(TRANSFER.names or ()), st.integers(-3, 3))
def test_what_is_accepted_sums(case: tuple[str, Schedule, int], column: str, by: int) -> None:
    """After any change the schedule is still an all-reduce, or it is refused with a transfer or a rank named."""
    shape, schedule, index = case
    transfers = schedule.transfers.copy()
    transfers[index][column] = max(0, int(transfers[index][column]) + by)
    changed = planted(schedule, transfers)
    try:
        check(changed, fabric(shape))
    except ScheduleError as error:
        assert re.match(NAMED, str(error))
    else:
        assert is_right(changed)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("src", 9, "ranks 0 to 8"),
        ("dst", 12, "ranks 0 to 8"),
        ("thread", 2, "threads 0 to 1"),
        ("level", 2, "ports 0 to 1"),
        ("op", 3, r"copy \(0\), reduce \(1\) or merge \(2\)"),
        ("length", 0, "no elements"),
        ("offset", -1, "exceeds the vector of 18 elements"),
        ("offset", 17, "exceeds the vector of 18 elements"),
        ("stage", 3, "not sorted by stage, round"),
    ],
)
def test_an_impossible_value_in_a_column_is_refused(column: str, value: int, message: str) -> None:
    schedule = Algorithm("hips").build(fabric("bcube(3,2)"), 18)
    transfers = schedule.transfers.copy()
    transfers[7][column] = value
    wrong = Schedule("hips", 9, 18, 2, transfers)
    named = 8 if column == "stage" else 7  # the next one is where the order breaks
    with pytest.raises(ScheduleError, match=rf"transfer {named} \(.*{message}"):
        check(wrong, fabric("bcube(3,2)"))


def test_a_rank_that_sends_to_itself() -> None:
    schedule = Algorithm("mesh").build(fabric("fattree(2,1)"), 4)
    transfers = schedule.transfers.copy()
    transfers[0]["dst"] = transfers[0]["src"]
    with pytest.raises(ScheduleError, match=r"transfer 0 .* are the same rank"):
        check(Schedule("mesh", 2, 4, 1, transfers), fabric("fattree(2,1)"))


def test_another_fabric() -> None:
    schedule = Algorithm("hips").build(fabric("bcube(3,2)"), 18)
    with pytest.raises(ScheduleError, match="the schedule has 9 ranks, but demo has 8 servers"):
        check(schedule, fabric("bcube(2,3)"))


def test_no_transfers_at_all() -> None:
    empty = Schedule("none", 9, 5, 1, Algorithm("hips").build(fabric("bcube(3,2)"), 0).transfers)
    with pytest.raises(ScheduleError, match=r"none: rank 0 ends with 1 of 9 contributions to \[0, 5\)"):
        check(empty, fabric("bcube(3,2)"))


def test_a_vector_without_elements_needs_none() -> None:
    report = check(Algorithm("hips").build(fabric("bcube(3,2)"), 0), fabric("bcube(3,2)"))
    assert (report.steps, report.busiest, report.in_steps, report.largest) == (0, 0, 0, 0)
