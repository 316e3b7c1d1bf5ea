# SPDX-License-Identifier: Apache-2.0
"""Operations on schedules: assembling, views, steps and splitting."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.schedule import ORDER, REDUCE, TRANSFER, assemble, involving, split, steps
from tests.collective.shapes import fabric


def row(stage: int, turn: int, thread: int, src: int, dst: int, length: int = 1) -> tuple[int, ...]:
    return thread, stage, turn, src, dst, 0, 0, length, REDUCE


def test_assembling_sorts_and_leaves_out_what_is_empty() -> None:
    expected = [
        row(0, 0, 0, 1, 2),
        row(0, 0, 1, 0, 1),
        row(0, 1, 0, 0, 1),
        row(1, 0, 0, 0, 1),
        row(1, 0, 0, 0, 2),
    ]
    mixed = [expected[i] for i in (3, 0, 4, 2, 1)] + [row(0, 0, 0, 0, 1, length=0)]
    schedule = assemble("test", 3, 1, 2, [np.array(mixed[:2], TRANSFER), np.array(mixed[2:], TRANSFER)])
    assert [tuple(int(v) for v in transfer) for transfer in schedule.transfers] == expected
    assert ORDER == ("stage", "round", "thread", "src", "dst", "offset")


def test_assembling_nothing() -> None:
    schedule = assemble("test", 3, 0, 1, [])
    assert schedule.transfers.dtype == TRANSFER
    assert len(schedule.transfers) == 0
    assert steps(schedule) == []


def test_a_transfer_involves_its_two_ends() -> None:
    transfers = Algorithm("hips").build(fabric("torus(3,3)"), 1000).transfers
    ends = [{int(t["src"]), int(t["dst"])} for t in transfers]
    for rank in range(9):
        assert involving(transfers, rank).tolist() == [rank in both for both in ends]


def test_steps_are_the_stages_and_rounds() -> None:
    schedule = Algorithm("hips").build(fabric("torus(3,3)"), 1000)
    found = [schedule.transfers[turn.start : turn.stop] for turn in steps(schedule)]
    places = [{(int(t["stage"]), int(t["round"])) for t in transfers} for transfers in found]
    assert places == [{(stage, turn)} for stage in range(4) for turn in range(2)]
    assert sum(map(len, found)) == len(schedule.transfers)


@given(st.integers(0, 10**12), st.integers(1, 600))
def test_splitting(count: int, parts: int) -> None:
    sizes = np.diff(split(count, parts))
    assert sizes.sum() == count
    assert sizes.max() - sizes.min() <= 1
