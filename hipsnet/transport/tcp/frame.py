# SPDX-License-Identifier: Apache-2.0
"""What goes over the wire for a write or a message: a header, and the bytes behind it."""

from __future__ import annotations

import struct

# kind (0 write, 1 message), key, length, immediate, offset: what an RDMA WRITE WITH IMMEDIATE carries.
HEADER = struct.Struct("<B3xIIIQ")
WRITE, MESSAGE = 0, 1


class Frame:
    """A write or a message on the way out; `rest` is what the kernel has not taken yet."""

    __slots__ = ("immediate", "is_write", "rest")

    def __init__(self, is_write: bool, immediate: int, *rest: memoryview) -> None:
        self.is_write = is_write
        self.immediate = immediate
        self.rest = list(rest)

    @property
    def is_untouched_write(self) -> bool:
        """A write of which nothing has left: the peer would not miss it."""
        return self.is_write and len(self.rest) == 2 and len(self.rest[0]) == HEADER.size


def write(key: int, offset: int, payload: memoryview, immediate: int) -> Frame:
    """Into the peer's region `key` at `offset`; the payload must not change until it has left."""
    header = HEADER.pack(WRITE, key, len(payload), immediate, offset)
    return Frame(True, immediate, memoryview(header), payload)


def message(payload: bytes) -> Frame:
    return Frame(False, 0, memoryview(HEADER.pack(MESSAGE, 0, len(payload), 0, 0) + payload))
