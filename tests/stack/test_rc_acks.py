# SPDX-License-Identifier: Apache-2.0
"""When an acknowledgement leaves: with data if there is any, otherwise alone after a delay."""

from __future__ import annotations

from typing import Any

from hipsnet.stack.roce.core import Core
from tests.stack.link import NEVER, Side, connect

OPCODE_AT = 14 + 20 + 8
ACKNOWLEDGE, WRITE_ONLY_IMMEDIATE, SEND_ONLY = 0x11, 0x0B, 0x04
DELAY_NS, LONG_NS = 200_000, 4_000_000
NOW = 1_000_000_000


def pair_of_sides(core: Core, **options: Any) -> tuple[Side, Side]:
    return connect(core, ack_delay_ns=DELAY_NS, send_ack_delay_ns=LONG_NS, path_mtu=1024, **options)


def opcodes(side: Side, now: int) -> list[int]:
    """The opcodes sent at that time, in order."""
    found = []
    while side.deadline() <= now and (frame := side.transmit(now)):
        found.append(frame[OPCODE_AT])
    return found


def one_write(core: Core, near: Side, far: Side, now: int) -> None:
    memory = far.register(1024)
    far.receive(0)
    assert near.write(bytes(1024), memory.address, memory.key, immediate=0)
    frame = near.transmit(now)
    assert frame[OPCODE_AT] == WRITE_ONLY_IMMEDIATE
    assert far.take(frame, now)


def test_an_ack_follows_an_answer_directly(core: Core) -> None:
    near, far = pair_of_sides(core)
    one_write(core, near, far, NOW)
    assert opcodes(far, NOW) == []
    near.receive(16)
    assert far.send(b"answer")
    assert opcodes(far, NOW) == [SEND_ONLY, ACKNOWLEDGE]
    assert far.deadline() > NOW + DELAY_NS  # no more than the answer's own time-out


def test_it_goes_behind_the_last_of_several_answers(core: Core) -> None:
    near, far = pair_of_sides(core)
    one_write(core, near, far, NOW)
    for _ in range(3):
        near.receive(16)
        assert far.send(b"answer")
    assert opcodes(far, NOW) == [SEND_ONLY] * 3 + [ACKNOWLEDGE]


def test_alone_it_waits_for_others(core: Core) -> None:
    near, far = pair_of_sides(core)
    one_write(core, near, far, NOW)
    one_write(core, near, far, NOW + DELAY_NS // 2)
    assert far.deadline() == NOW + DELAY_NS
    assert opcodes(far, NOW + DELAY_NS - 1) == []
    assert opcodes(far, NOW + DELAY_NS) == [ACKNOWLEDGE]
    assert far.counters.tx_acks == 1


def test_a_flush_sends_it_at_once(core: Core) -> None:
    near, far = pair_of_sides(core)
    core.lib.rc_flush(far.pair, NEVER)
    assert opcodes(far, NOW) == [] and not core.lib.rc_is_owing(far.pair)
    one_write(core, near, far, NOW)
    assert opcodes(far, NOW) == [] and core.lib.rc_is_owing(far.pair)
    core.lib.rc_flush(far.pair, NEVER)
    assert opcodes(far, NOW) == [ACKNOWLEDGE] and not core.lib.rc_is_owing(far.pair)
    assert core.lib.rc_is_owing(near.pair) is False
    assert near.send(b"one")
    assert core.lib.rc_is_owing(near.pair)
    assert opcodes(near, NOW) == [SEND_ONLY] and not core.lib.rc_is_owing(near.pair)


def test_the_ack_of_a_send_waits_longer_and_goes_with_that_of_a_write(core: Core) -> None:
    near, far = pair_of_sides(core)
    far.receive(16)
    assert near.send(b"small") and far.take(near.transmit(NOW), NOW)
    assert far.deadline() == NOW + LONG_NS
    core.lib.rc_flush(far.pair, NOW + LONG_NS)
    assert opcodes(far, NOW) == [], "not due before that time"
    one_write(core, near, far, NOW + 1)
    assert far.deadline() == NOW + 1 + DELAY_NS
    assert opcodes(far, NOW + 1 + DELAY_NS) == [ACKNOWLEDGE]
    assert far.deadline() > NOW + LONG_NS


def test_one_in_the_middle_of_a_message_waits_for_nothing(core: Core) -> None:
    """Its sender may have no window left."""
    near, far = pair_of_sides(core, window=2)
    memory = far.register(8192)
    assert near.write(bytes(8192), memory.address, memory.key)
    for _ in range(2):
        assert far.take(near.transmit(NOW), NOW)
    assert near.transmit(NOW) == b""
    assert opcodes(far, NOW) == [ACKNOWLEDGE]
