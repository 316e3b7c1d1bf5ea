# SPDX-License-Identifier: Apache-2.0
"""The control messages between the executors of two ranks; bulk data travels as writes beside them.

Little-endian, fixed layout, first byte the kind. Messages and writes of one connection arrive in the order in
which they were posted, so a message also describes the writes posted before it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """The first byte of a message."""

    READY = 0
    CREDIT = 1
    HEARTBEAT = 2
    ABORT = 3


class MalformedMessage(ValueError):
    """The bytes are not a message of this protocol; the text gives the reason."""


@dataclass(frozen=True)
class Call:
    """What must be the same on every rank that enters a collective."""

    count: int
    dtype: str
    operation: str

    def __str__(self) -> str:
        return f"{self.operation} of {self.count} x {self.dtype}"


@dataclass(frozen=True)
class Ready:
    """The sender has entered collective `sequence`, counted from 1; the first message about that collective.

    `key` names the array that takes finished pieces, `staging_key` the ring that takes what is to be reduced.
    `emptied` has the meaning of `Credit`.
    """

    sequence: int
    key: int
    staging_key: int
    emptied: int
    call: Call


@dataclass(frozen=True)
class Credit:
    """How many staging slots the sender has emptied since the connection began."""

    emptied: int


@dataclass(frozen=True, order=True)
class Position:
    """How far a rank is: its collective, and the first stage there that is not finished. Lower is behind."""

    sequence: int
    stage: int
    rank: int


@dataclass(frozen=True)
class Heartbeat:
    """The sender waits in collective `sequence`, in which it has posted `posted` writes on this connection.

    `stalled_ms`: the time since the last progress of any rank known to the sender.
    `behind`: the position of the rank furthest behind that is known to the sender.
    """

    sequence: int
    posted: int
    stalled_ms: int
    behind: Position


@dataclass(frozen=True)
class Abort:
    """The collective has failed; `culprit` is the rank that caused it, or -1."""

    culprit: int
    reason: str


Message = Ready | Credit | Heartbeat | Abort

REASON_BYTES = 1000
DONE = 0xFFFF
"""The stage of a rank that has finished all stages of its collective."""

_READY = struct.Struct("<B3xIIxxxxQQQ16s8s")  # kind, keys, sequence, emptied, count, dtype, operation
_CREDIT = struct.Struct("<B7xQ")  # kind, emptied
_HEARTBEAT = struct.Struct("<BxHIQIIQ")  # kind, behind's stage and rank, sequence, posted, stalled, behind's
_ABORT = struct.Struct("<B3xi")  # kind, culprit; the reason in UTF-8 follows
_NAME = re.compile(rb"([a-z][a-z0-9]*)\0*")


def pack(message: Message) -> bytes:
    """The bytes of a message; the reason of an abort is cut to REASON_BYTES."""
    match message:
        case Ready(sequence, key, staging_key, emptied, call):
            names = call.dtype.encode(), call.operation.encode()
            return _READY.pack(Kind.READY, key, staging_key, sequence, emptied, call.count, *names)
        case Credit(emptied):
            return _CREDIT.pack(Kind.CREDIT, emptied)
        case Heartbeat(sequence, posted, stalled_ms, behind):
            return _HEARTBEAT.pack(
                Kind.HEARTBEAT,
                behind.stage,
                behind.rank,
                sequence,
                posted,
                min(stalled_ms, 2**32 - 1),
                behind.sequence,
            )
        case Abort(culprit, reason):
            return _ABORT.pack(Kind.ABORT, culprit) + reason.encode()[:REASON_BYTES]


def unpack(raw: bytes) -> Message:
    """Parse a message. Raises MalformedMessage for any bytes that `pack` does not produce."""
    if not raw:
        raise MalformedMessage("it is empty")
    if raw[0] == Kind.ABORT:
        return _unpack_abort(raw)
    if raw[0] not in _UNPACK:
        raise MalformedMessage(f"its kind is {raw[0]}; allowed: {min(Kind):d} to {max(Kind):d}")
    layout, make = _UNPACK[Kind(raw[0])]
    if len(raw) != layout.size:
        raise MalformedMessage(f"a {Kind(raw[0]).name} has {layout.size} bytes, not {len(raw)}")
    message = make(*layout.unpack(raw)[1:])
    if pack(message) != raw:
        raise MalformedMessage(f"reserved bytes of a {Kind(raw[0]).name} are not zero")
    return message


def _ready(
    key: int, staging_key: int, sequence: int, emptied: int, count: int, dtype: bytes, operation: bytes
) -> Ready:
    names = _NAME.fullmatch(dtype), _NAME.fullmatch(operation)
    if not names[0] or not names[1]:
        raise MalformedMessage(f"a READY names the dtype {dtype!r} and the operation {operation!r}")
    if not sequence:
        raise MalformedMessage("a READY announces collective 0, and the first is 1")
    return Ready(sequence, key, staging_key, emptied, Call(count, names[0][1].decode(), names[1][1].decode()))


def _heartbeat(stage: int, rank: int, sequence: int, posted: int, stalled_ms: int, behind: int) -> Heartbeat:
    if not sequence or not behind:
        raise MalformedMessage("a HEARTBEAT names collective 0, and the first is 1")
    return Heartbeat(sequence, posted, stalled_ms, Position(behind, stage, rank))


_UNPACK: dict[Kind, tuple[struct.Struct, Callable[..., Message]]] = {
    Kind.READY: (_READY, _ready),
    Kind.CREDIT: (_CREDIT, Credit),
    Kind.HEARTBEAT: (_HEARTBEAT, _heartbeat),
}


def _unpack_abort(raw: bytes) -> Abort:
    if not _ABORT.size <= len(raw) <= _ABORT.size + REASON_BYTES:
        raise MalformedMessage(
            f"an ABORT has {_ABORT.size} to {_ABORT.size + REASON_BYTES} bytes, not {len(raw)}"
        )
    culprit = int(_ABORT.unpack_from(raw)[1])
    if culprit < -1:
        raise MalformedMessage(f"an ABORT blames rank {culprit}")
    reason = raw[_ABORT.size :].decode(errors="replace")
    # The reason is printed: keep control characters off the terminal.
    return Abort(culprit, "".join(c if c.isprintable() else "?" for c in reason))
