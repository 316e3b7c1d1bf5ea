# SPDX-License-Identifier: Apache-2.0
"""AF_XDP sockets for tests, over the C functions: sending and receiving frames as bytes."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from typing import Any

from hipsnet.node import namespace
from hipsnet.stack.ports.loop import core
from tests.kernel.frames import ethernet, ipv4, udp
from tools.benchmarks.two_nodes import INTERFACE, End

CHUNKS, FRAMES, LONGEST = 2048, 512, 9018
HEADERS = 14 + 20 + 8


class Memory:
    """A memory with its sockets."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def free(self) -> int:
        return int(core().lib.xsk_memory_free(self.made))


class Socket:
    """A socket that is open."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self._frames = core().ffi.new("struct xsk_frame[]", 64)

    def send(self, *frames: bytes) -> int:
        """Queue the frames and send them; return how many fit."""
        ffi, lib = core()
        for count, frame in enumerate(frames):
            buffer = lib.xsk_reserve(self.made)
            if not buffer:
                return count
            ffi.memmove(buffer, frame, len(frame))
            lib.xsk_commit(self.made, buffer, len(frame))
        while lib.xsk_kick(self.made) > 0:
            time.sleep(0.0001)
        return len(frames)

    def take(self, most: int = 64) -> list[bytes]:
        """Return the received frames and release their chunks."""
        lib = core().lib
        count = lib.xsk_receive(self.made, self._frames, most)
        found = [self.read(index) for index in range(count)]
        lib.xsk_release(self.made, self._frames, count)
        return found

    def read(self, index: int) -> bytes:
        frame = self._frames[index]
        spans = [core().ffi.buffer(frame.spans[i].data, frame.spans[i].bytes) for i in range(frame.count)]
        return b"".join(bytes(span) for span in spans)

    def await_frames(self, least: int, bound_s: float = 5) -> list[bytes]:
        """Receive until there are at least this many frames, or the time is over."""
        found: list[bytes] = []
        end = time.monotonic() + bound_s
        while len(found) < least and time.monotonic() < end:
            taken = self.take()
            found += taken
            if not taken:
                time.sleep(0.001)
        return found

    def statistics(self) -> Any:
        ffi, lib = core()
        statistics = ffi.new("struct xsk_statistics *")
        lib.xsk_statistics(self.made, statistics)
        return statistics[0]


@contextmanager
def memory(chunks: int = CHUNKS, frames: int = FRAMES, longest: int = LONGEST) -> Iterator[Memory]:
    ffi, lib = core()
    made = ffi.new("struct xsk_memory **")
    assert lib.xsk_memory_open(made, chunks, frames, longest) == 0
    try:
        yield Memory(made[0])
    finally:
        lib.xsk_memory_close(made[0])


@contextmanager
def socket(end: End, of: Memory, joins: bool = True) -> Iterator[Socket]:
    """A socket at an end of a cable, to which the end's program hands RoCE."""
    ffi, lib = core()
    made = ffi.new("struct xsk **")
    with namespace.inside(end.namespace):
        error = lib.xsk_open(made, of.made, INTERFACE.encode(), 0, 0)
    assert error == 0, os.strerror(-error)
    try:
        lib.xsk_refill(made[0])
        if joins:
            join(end, made[0])
        yield Socket(made[0])
    finally:
        lib.xsk_close(made[0])


def join(end: End, xsk: Any) -> None:
    lib = core().lib
    map_fd = lib.xsk_open_map(os.fsencode(end.endpoints))
    assert map_fd >= 0
    assert lib.xsk_join(xsk, map_fd, 0) == 0
    os.close(map_fd)


def roce(near: End, far: End, number: int, size: int) -> bytes:
    """A frame of `size` bytes in total that the far end's program accepts as RoCE; each is different."""
    body = struct.pack("!I", number) + bytes((number + i) % 251 for i in range(size))
    payload = body[: size - HEADERS]
    packet = ipv4(far.address, udp(4791, payload), source=str(IPv4Address(near.address)))
    return ethernet(packet, to=far.mac, source=near.mac)
