# SPDX-License-Identifier: Apache-2.0
"""Draining TCP sleeps until a socket with bytes to send is writable."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from tests.transport.meeting import meeting


def test_a_peer_that_closed_or_sends_does_not_make_drain_spin() -> None:
    """Of three peers one has disconnected, one has sent unread bytes, and one receives nothing."""
    with meeting([(0, 1), (0, 2), (0, 3)]) as ends:
        here, *others = (end.transport for end in ends)
        here.post_message(0, b"nobody reads this, so closing resets the connection")
        here.poll(0)
        others[0].close()
        others[1].post_message(0, b"words")
        others[1].poll(0)
        much = here.register(np.zeros(64 << 20, np.uint8))
        here.post_write(2, much, 0, 64 << 20, 1, 0, 0)

        before = resource.getrusage(resource.RUSAGE_THREAD)
        here.drain(1.0)
        after = resource.getrusage(resource.RUSAGE_THREAD)
        assert after.ru_utime - before.ru_utime < 0.2


def test_drain_sends_everything() -> None:
    with meeting([(0, 1)]) as (near, far):
        near.transport.post_message(0, b"the last words")
        near.transport.drain(5.0)
        near.transport.close()
        assert far.until_closed()[0].payload == b"the last words"


@pytest.mark.timeout(30)
def test_drain_does_not_wait_for_a_disconnected_peer() -> None:
    """After a reset the kernel still counts the bytes in flight as unacknowledged."""
    with meeting([(0, 1)]) as (near, far):
        much = near.transport.register(np.zeros(1 << 20, np.uint8))
        near.transport.post_write(0, much, 0, 1 << 20, 1, 0, 0)
        near.transport.poll(0)
        far.transport.close()
        near.transport.drain(3600.0)
