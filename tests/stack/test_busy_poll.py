# SPDX-License-Identifier: Apache-2.0
"""When a stack polls for the next frame before it sleeps, and when it stops doing so."""

from __future__ import annotations

from typing import Any

import pytest

from hipsnet.stack.roce.core import Core

SOON_NS, WAITS = 50_000, 16


@pytest.fixture(scope="module")
def face(core: Core) -> Any:
    core.ffi.cdef(
        "struct busy_poll { u32 short_waits; };"
        "void note_wait(struct busy_poll *self, bool has_come, u64 took_ns);"
        "u64 next_look_ns(const struct busy_poll *self);"
    )
    return core


class BusyPoll:
    def __init__(self, face: Core) -> None:
        self.lib, self.state = face.lib, face.ffi.new("struct busy_poll *")

    def waits(self, count: int, took_ns: int, has_come: bool = True) -> None:
        for _ in range(count):
            self.lib.note_wait(self.state, has_come, took_ns)

    @property
    def look_ns(self) -> int:
        return int(self.lib.next_look_ns(self.state))


def test_busy_polling_starts_after_consecutive_short_waits_and_continues(face: Core) -> None:
    busy_poll = BusyPoll(face)
    assert busy_poll.look_ns == 0
    busy_poll.waits(WAITS - 1, SOON_NS - 1)
    assert busy_poll.look_ns == 0
    busy_poll.waits(1, SOON_NS - 1)
    assert busy_poll.look_ns == SOON_NS
    busy_poll.waits(1000, 0)
    assert busy_poll.look_ns == SOON_NS


@pytest.mark.parametrize(("took_ns", "has_come"), [(SOON_NS, True), (1, False), (10**9, False)])
def test_one_long_wait_ends_busy_polling(face: Core, took_ns: int, has_come: bool) -> None:
    busy_poll = BusyPoll(face)
    busy_poll.waits(1000, 1)
    busy_poll.waits(1, took_ns, has_come)
    for _ in range(WAITS):
        assert busy_poll.look_ns == 0
        busy_poll.waits(1, 1)
    assert busy_poll.look_ns == SOON_NS
