# SPDX-License-Identifier: Apache-2.0
"""A peer writes into registered memory only, and only as long as it is registered."""

from __future__ import annotations

import numpy as np
import pytest

from hipsnet.transport.interface import Completion, Event
from hipsnet.transport.tcp import transport as tcp
from tests.transport.meeting import TIMEOUT_S, End, meeting

SIZE = 8 << 20  # more than two kernels keep between them


def until_partly_written(near: End, far: End, memory: np.ndarray) -> None:
    """Until the first bytes of a write of `far` are here, and not the last."""
    while not memory[0]:
        far.transport.poll(0)
        assert near.transport.poll(0) == []
    assert not memory[-1]


def test_the_rest_of_a_write_is_refused_after_deregister() -> None:
    with meeting([(0, 1)]) as (near, far):
        memory = np.zeros(SIZE, np.uint8)
        here = near.transport.register(memory)
        there = far.transport.register(np.ones(SIZE, np.uint8))
        far.transport.post_write(0, there, 0, SIZE, here.key, 0, 1)
        until_partly_written(near, far, memory)

        near.transport.deregister(here)
        written = int(memory.sum())
        completions: list[Completion] = []
        while not completions:
            far.transport.poll(0)
            completions = near.transport.poll(TIMEOUT_S)
        assert [(each.event, each.payload) for each in completions] == [
            (Event.CLOSED, b"it writes into region %d, which is not registered any more" % here.key)
        ]
        assert int(memory.sum()) == written


def test_a_write_that_begins_after_deregister_is_refused() -> None:
    with meeting([(0, 1)]) as (near, far):
        memory = np.zeros(64, np.uint8)
        here = near.transport.register(memory)
        there = far.transport.register(np.ones(64, np.uint8))
        near.transport.deregister(here)
        far.transport.post_write(0, there, 0, 64, here.key, 0, 1)
        far.transport.poll(0)
        (closed,) = near.until_closed()
        assert closed.payload == b"it wrote 64 bytes at 0 of region %d, which is not there" % here.key
        assert not memory.any()


def test_keys_always_fit_their_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MOST_KEYS", 3)
    with meeting([(0, 1)]) as (near, _):
        kept = near.transport.register(np.zeros(1, np.uint8))
        keys = [kept.key]
        for _ in range(5):
            region = near.transport.register(np.zeros(1, np.uint8))
            keys.append(region.key)
            near.transport.deregister(region)
        assert keys == [1, 2, 3, 2, 3, 2]


def test_nothing_follows_a_send_that_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after the kernel took the bytes and before we noted it: to send them again would corrupt the write."""
    with meeting([(0, 1)]) as (near, far):
        memory = np.zeros(64, np.uint8)
        here = far.transport.register(memory)
        there = near.transport.register(np.ones(64, np.uint8))
        (connection,) = near.transport._connections

        def interrupt(size: int) -> None:
            raise KeyboardInterrupt

        near.transport.post_write(0, there, 0, 64, here.key, 0, 1)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(connection, "_sent", interrupt)
            near.transport.poll(0)
        near.transport.post_message(0, b"the reason")
        near.transport.drain(1.0)
        near.transport.close()
        completions = far.until_closed()
        assert [each.event for each in completions] == [Event.WRITTEN, Event.CLOSED]
        assert memory.all()
