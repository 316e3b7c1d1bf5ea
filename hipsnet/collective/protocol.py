"""The small messages between the executors of two ranks; bulk data travels as writes beside them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """The first byte of a message."""

    STAGING = 0  # the key of the memory that takes what is to be reduced; once, after connecting
    READY = 1  # I have entered collective number ..: its parameters, and where finished pieces are to go
    CREDIT = 2  # how many staging slots I have emptied since the connection began
    ALIVE = 3  # I wait, too
    ABORT = 4  # the collective cannot end: whose fault, and why


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
    """Entry into collective `sequence`; `key` names the array, `emptied` counts slots as CREDIT does."""

    sequence: int
    key: int
    emptied: int
    call: Call


_READY = struct.Struct("<BxxxIIQQ16s8s")
_NUMBER = struct.Struct("<BxxxQ")
_ABORT = struct.Struct("<Bxxxi")

ALIVE = bytes([Kind.ALIVE])


def pack_number(kind: Kind, number: int) -> bytes:
    """STAGING with its key, or CREDIT with its count."""
    return _NUMBER.pack(kind, number)


def unpack_number(message: bytes) -> int:
    return int(_NUMBER.unpack(message)[1])


def pack_ready(ready: Ready) -> bytes:
    call = ready.call
    return _READY.pack(
        Kind.READY,
        ready.sequence,
        ready.key,
        ready.emptied,
        call.count,
        call.dtype.encode(),
        call.operation.encode(),
    )


def unpack_ready(message: bytes) -> Ready:
    _, sequence, key, emptied, count, dtype, operation = _READY.unpack(message)
    call = Call(count, dtype.rstrip(b"\0").decode(), operation.rstrip(b"\0").decode())
    return Ready(sequence, key, emptied, call)


def pack_abort(culprit: int, reason: str) -> bytes:
    """`culprit` is a rank, or -1 where none is to blame."""
    return _ABORT.pack(Kind.ABORT, culprit) + reason.encode()[:1000]


def unpack_abort(message: bytes) -> tuple[int, str]:
    return int(_ABORT.unpack_from(message)[1]), message[_ABORT.size :].decode(errors="replace")
