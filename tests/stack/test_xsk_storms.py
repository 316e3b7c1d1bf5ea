# SPDX-License-Identifier: Apache-2.0
"""A server between two cables, one of which is paused forever: the fate of the frames that it holds."""

from __future__ import annotations

import pytest

from hipsnet.node.storms import read_storms
from tests.stack.line import Line
from tests.stack.sockets import Socket
from tests.stack.test_xsk_pauses import PRIORITY, XOFF, moved, numbers, reasons, row_at_work, through, until

FRAMES = 20


@pytest.mark.parametrize("action", ["drop", "forward", "alert"])
def test_a_storm_is_detected_acted_on_and_restored(row: Line, action: str) -> None:
    with row_at_work(row, watchdog=(100, 100, action)) as (stack, near, far):
        before = reasons(row)
        far.send(XOFF)
        until(lambda: moved(row, before, "local_pfc") == 1)
        near.send(*(through(row, number) for number in range(FRAMES)))
        until(lambda: stack.counters(1)["storms"] == 1)
        (storm,) = read_storms(row.fabric, "m")
        assert (storm.port, storm.priority, storm.victims, storm.waiting) == (1, PRIORITY, (0,), FRAMES)
        assert storm.over_ns is None and storm.seen_ns - storm.since_ns >= 100_000_000
        far.send(XOFF)  # the storm continues
        if action == "drop":
            until(lambda: stack.counters(1)["storm_dropped"] == FRAMES)
            near.send(through(row, FRAMES))
            until(lambda: stack.counters(1)["storm_dropped"] == FRAMES + 1)
            assert numbers(far.take()) == []
        elif action == "forward":
            assert numbers(far.await_frames(FRAMES)) == list(range(FRAMES))
            near.send(through(row, FRAMES))
            assert numbers(far.await_frames(1)) == [FRAMES]
        else:
            assert far.take() == []
            near.send(through(row, FRAMES))
            assert numbers(far.await_frames(FRAMES + 1)) == list(range(FRAMES + 1))  # when it has run out
        # When the pause expires, the port is restored and frames pass.
        until(lambda: _passes(row, near, far))
        assert stack.counters(1)["storms"] == 1
        until(lambda: read_storms(row.fabric, "m")[0].over_ns is not None)
        (over,) = read_storms(row.fabric, "m")
        assert over.number == storm.number
        assert over.lost == stack.counters(1)["storm_dropped"]


def _passes(row: Line, near: Socket, far: Socket) -> bool:
    near.send(through(row, FRAMES + 1))
    return FRAMES + 1 in numbers(far.take())
