# SPDX-License-Identifier: Apache-2.0
"""The invariant CRC, computed both ways, against zlib's CRC-32."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsnet.stack.roce.core import Core


@pytest.fixture(scope="module")
def crc(core: Core) -> Any:
    """The functions of roce/icrc.h, out of the same library."""
    core.ffi.cdef(
        """
        u32 icrc_add(u32 icrc, const void *data, u32 bytes);
        u32 icrc_copy(u32 icrc, void *to, const void *data, u32 bytes);
        u32 icrc_add_by_table(u32 icrc, const void *data, u32 bytes);
        """
    )
    return core.lib


def test_the_check_value(crc: Any) -> None:
    assert crc.icrc_add(0, b"123456789", 9) == crc.icrc_add_by_table(0, b"123456789", 9) == 0xCBF43926


@pytest.mark.parametrize("start", [0, 0xFFFFFFFF, 0x12345678])
def test_every_length(core: Core, crc: Any, start: int) -> None:
    data = random.Random(start).randbytes(5000)
    copied = core.ffi.new("u8[]", 5000)
    for size in [*range(300), *range(1000, 1100), 2048, 4095, 4096, 4097]:
        at = size % 17
        part = core.ffi.from_buffer(data) + at
        expected = zlib.crc32(data[at : at + size], start)
        assert crc.icrc_add(start, part, size) == expected, size
        assert crc.icrc_add_by_table(start, part, size) == expected, size
        core.ffi.memmove(copied, bytes(5000), 5000)
        assert crc.icrc_copy(start, copied + at, part, size) == expected, size
        assert bytes(core.ffi.buffer(copied)) == bytes(at) + data[at : at + size] + bytes(5000 - at - size)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=8))
def test_piece_by_piece(crc: Any, pieces: list[bytes]) -> None:
    total = 0
    for piece in pieces:
        total = crc.icrc_add(total, piece, len(piece))
    assert total == zlib.crc32(b"".join(pieces))
