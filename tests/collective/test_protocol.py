# SPDX-License-Identifier: Apache-2.0
"""Every control message is decoded as it was encoded; all other bytes are refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hipsnet.collective.protocol import (
    REASON_BYTES,
    Abort,
    Call,
    Credit,
    Heartbeat,
    Kind,
    MalformedMessage,
    Message,
    Position,
    Ready,
    pack,
    unpack,
)
from hipsnet.transport.interface import MESSAGE_LIMIT

U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))
SEQUENCE = st.integers(1, 2**64 - 1)
NAME = st.from_regex("[a-z][a-z0-9]{0,7}", fullmatch=True)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Ready, SEQUENCE, U32, U32, U64, st.builds(Call, U64, NAME, NAME)),
    st.builds(Credit, U64),
    st.builds(Heartbeat, SEQUENCE, U32, U32, st.builds(Position, SEQUENCE, U16, U32)),
    st.builds(Abort, st.integers(-1, 2**31 - 1), st.text("ab c\u00e9", max_size=REASON_BYTES // 2)),
)


@given(MESSAGES)
def test_what_is_packed_is_unpacked(message: Message) -> None:
    raw = pack(message)
    assert len(raw) <= MESSAGE_LIMIT
    assert unpack(raw) == message


@given(MESSAGES, st.integers(0, 2**16))
def test_a_message_that_is_cut_or_lengthened_is_refused(message: Message, cut: int) -> None:
    raw = pack(message)
    if not isinstance(message, Abort):
        with pytest.raises(MalformedMessage):
            unpack(raw[: cut % len(raw)])
        with pytest.raises(MalformedMessage):
            unpack(raw + b"\0")
    else:
        with pytest.raises(MalformedMessage):
            unpack(raw[: cut % 8])


@given(st.one_of(st.binary(max_size=200), st.integers(0, 3).flatmap(lambda kind: _of_kind(kind))))
@example(b"")
@example(bytes([Kind.READY]))
@example(bytes([Kind.ABORT, 0, 0, 0]) + (-2).to_bytes(4, "little", signed=True))
@example(bytes([7]) * 64)
def test_bytes_are_a_message_or_malformed(raw: bytes) -> None:
    with suppress(MalformedMessage):
        message = unpack(raw)
        assert unpack(pack(message)) == message


def _of_kind(kind: int) -> st.SearchStrategy[bytes]:
    size = len(pack(_ANY[kind]))
    return st.binary(min_size=size - 1, max_size=size - 1).map(lambda rest: bytes([kind]) + rest)


_ANY: dict[int, Message] = {
    Kind.READY: Ready(1, 1, 1, 0, Call(1, "int32", "sum")),
    Kind.CREDIT: Credit(0),
    Kind.HEARTBEAT: Heartbeat(1, 0, 0, Position(1, 0, 0)),
    Kind.ABORT: Abort(-1, "why"),
}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "it is empty"),
        (b"\x09", "its kind is 9"),
        (b"\x01\0\0", "a CREDIT has 16 bytes, not 3"),
        (b"\x01" + b"\x07" * 15, "reserved bytes of a CREDIT"),
        (b"\x03\0", "an ABORT has 8 to 1008 bytes, not 2"),
        (pack(_ANY[Kind.READY])[:-8] + b"\x1b[2J\0\0\0\0", "names the dtype"),
    ],
)
def test_an_invalid_message_is_described(raw: bytes, words: str) -> None:
    with pytest.raises(MalformedMessage, match=words):
        unpack(raw)


def test_a_reason_cannot_control_a_terminal() -> None:
    assert unpack(pack(Abort(3, "a\x1b[2Jb"))) == Abort(3, "a?[2Jb")
    assert unpack(pack(Abort(3, "x" * 5000))) == Abort(3, "x" * REASON_BYTES)
