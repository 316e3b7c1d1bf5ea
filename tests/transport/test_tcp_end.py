# SPDX-License-Identifier: Apache-2.0
"""Messages that a peer sent before it closed are delivered before the close, also if a send fails first."""

from __future__ import annotations

import numpy as np
import pytest

from hipsnet.collective import protocol
from hipsnet.collective.executor import Executor, Timeouts
from hipsnet.collective.segments import Plan
from hipsnet.errors import CollectiveError
from hipsnet.transport.interface import Completion, Event
from tests.transport.meeting import End, meeting

LAST_WORDS = b"it was rank 7"
SIZE = 32 << 10  # more than is read ahead, and less than the kernel keeps for one that does not read


@pytest.mark.parametrize(
    ("leaves_unread", "why"),
    [(True, b"Connection reset by peer"), (False, b"it closed the connection")],
    ids=["reset", "broken pipe"],
)
def test_messages_sent_before_a_close_are_delivered_first(leaves_unread: bool, why: bytes) -> None:
    """A peer closes after a write and its last message; our next send makes its kernel reset the connection."""
    with meeting([(0, 1)]) as (near, far):
        here = near.transport.register(np.zeros(SIZE, np.uint8))
        there = far.transport.register(np.ones(SIZE, np.uint8))
        if leaves_unread:
            near.transport.post_message(0, b"nobody reads this, so closing resets the connection")
            near.transport.poll(0)
        far.transport.post_write(0, there, 0, SIZE, here.key, 0, 5)
        far.transport.post_message(0, LAST_WORDS)
        far.transport.drain(20.0)
        far.transport.close()

        near.transport.post_message(0, b"too late")
        near.transport.drain(0)
        near.transport.post_message(0, b"too late")
        completions = near.until_closed()
        assert [each.event for each in completions] == [Event.WRITTEN, Event.MESSAGE, Event.CLOSED]
        assert here.memory.all()
        assert completions[1].payload == LAST_WORDS
        assert completions[2].payload == why


def test_last_messages_do_not_wait_for_abandoned_writes() -> None:
    """A write in progress completes; the others are not sent."""
    with meeting([(0, 1)]) as (near, far):
        size, count = 1 << 20, 64
        here = near.transport.register(np.ones(size, np.uint8))
        there = far.transport.register(np.zeros(size, np.uint8))
        for number in range(count):
            near.transport.post_write(0, here, 0, size, there.key, 0, number)
        near.transport.poll(0)
        near.transport.abandon()
        near.transport.post_message(0, LAST_WORDS)
        completions: list[Completion] = []
        while not completions or completions[-1].event != Event.MESSAGE:
            near.transport.poll(0)
            completions += far.transport.poll(0)
        *written, last = completions
        assert [(each.event, each.immediate) for each in written] == [
            (Event.WRITTEN, number) for number in range(len(written))
        ]
        assert 0 < len(written) < count
        assert there.memory.all()
        assert last.payload == LAST_WORDS


def test_a_rank_whose_send_fails_names_the_failed_rank() -> None:
    """Rank 2 ends; rank 1 reports it and closes with unread messages; rank 0 notices at its next send."""
    with meeting([(0, 1), (1, 2)]) as (first, middle, last):
        waiting, failing = executor(first, 0), executor(middle, 1)
        for _ in range(1000):  # more than is read at once
            first.transport.post_message(0, protocol.pack(protocol.Credit(0)))
        first.transport.poll(0)
        last.transport.close()
        with pytest.raises(CollectiveError, match=r"rank 1: collective .* failed, at rank 2 .*: rank 2: "):
            run(failing, peers=2)
        with pytest.raises(
            CollectiveError, match=r"rank 0: collective .* failed, reported by rank 1 .*: rank 2: "
        ):
            run(waiting, peers=1)


def executor(end: End, rank: int) -> Executor:
    return Executor(end.transport, rank, end.peers, Timeouts(5.0, 10.0))


def run(executor: Executor, peers: int) -> None:
    """A collective of no elements: every neighbour has to enter it, and that is all."""
    nothing = ((),) * peers
    executor.run(Plan(0, 1, (), (), (), nothing, nothing), np.zeros(0, np.float32), "sum", lambda *_: None)
