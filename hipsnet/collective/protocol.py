# SPDX-License-Identifier: Apache-2.0
"""The small messages between the executors of two ranks; bulk data travels as writes beside them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """The first byte of a message."""

    READY = 0  # I have entered collective number ..; its parameters, and where what you send is to be written
    CREDIT = 1  # how many staging slots I have emptied since the connection began
    HEARTBEAT = 2  # I wait, too
    ABORT = 3  # the collective cannot end: whose fault, and why


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
    """Entry into collective `sequence`; `emptied` counts slots as CREDIT does.

    `key` names the array that takes finished pieces, `staging_key` the ring that takes what is to be reduced.
    """

    sequence: int
    key: int
    staging_key: int
    emptied: int
    call: Call


_READY = struct.Struct("<BxxxIIIQQ16s8s")
_CREDIT = struct.Struct("<BxxxQ")
_ABORT = struct.Struct("<Bxxxi")

HEARTBEAT = bytes([Kind.HEARTBEAT])


def pack_credit(emptied: int) -> bytes:
    return _CREDIT.pack(Kind.CREDIT, emptied)


def unpack_credit(message: bytes) -> int:
    return int(_CREDIT.unpack(message)[1])


def pack_ready(ready: Ready) -> bytes:
    call = ready.call
    return _READY.pack(
        Kind.READY,
        ready.sequence,
        ready.key,
        ready.staging_key,
        ready.emptied,
        call.count,
        call.dtype.encode(),
        call.operation.encode(),
    )


def unpack_ready(message: bytes) -> Ready:
    _, sequence, key, staging_key, emptied, count, dtype, operation = _READY.unpack(message)
    call = Call(count, dtype.rstrip(b"\0").decode(), operation.rstrip(b"\0").decode())
    return Ready(sequence, key, staging_key, emptied, call)


def pack_abort(culprit: int, reason: str) -> bytes:
    """`culprit` is a rank, or -1 where none is to blame."""
    return _ABORT.pack(Kind.ABORT, culprit) + reason.encode()[:1000]


def unpack_abort(message: bytes) -> tuple[int, str]:
    return int(_ABORT.unpack_from(message)[1]), message[_ABORT.size :].decode(errors="replace")
