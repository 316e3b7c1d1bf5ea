# SPDX-License-Identifier: Apache-2.0
"""Two endpoints in memory, on a virtual clock, joined by a link that delays, loses, duplicates and reorders."""

from __future__ import annotations

import heapq
import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from hipsnet.stack.building import FOLDER
from hipsnet.stack.roce.core import Core

IPS = (0x0A000001, 0x0A000002)
MACS = (b"\x02\x00\x00\x00\x00\x01", b"\x02\x00\x00\x00\x00\x02")
CHUNK = 4096
NEVER = 2**64 - 1
DROPS = tuple(re.findall(r'DROP\((\w+),\s*"', (FOLDER / "roce/drops.h").read_text()))
"""The reasons to drop a frame, in the order of the endpoint's counters."""


@dataclass(frozen=True)
class Faults:
    """Probabilities for each frame: to be lost, duplicated, delayed so that others overtake it, and, if it is ECN
    capable, marked."""

    loss: float = 0.0
    double: float = 0.0
    hold: float = 0.0
    mark: float = 0.0


@dataclass
class Memory:
    """Registered memory of a side. Guards before and after it reveal writes out of bounds."""

    buffer: Any
    view: Any
    key: int
    address: int
    guard: int

    def read(self, size: int) -> bytes:
        return bytes(self.view[self.guard : self.guard + size])

    def is_guarded(self) -> bool:
        edge = b"\xa5" * self.guard
        return bytes(self.view[: self.guard]) == edge == bytes(self.view[-self.guard :])


class Side:
    """One endpoint with one pair."""

    def __init__(self, core: Core, seed: int, depth: int) -> None:
        self.ffi, self.lib = core
        self.endpoint = self.lib.endpoint_create(16, 16, seed)
        self.pair = self.lib.rc_create(self.endpoint, depth, depth)
        self.qpn = int(self.lib.rc_qpn(self.pair))
        self.kept: list[Any] = []  # memory that C refers to
        self.completions: list[Any] = []
        self._out = self.ffi.new("u8[]", 2 * CHUNK)

    def close(self) -> None:
        self.lib.endpoint_destroy(self.endpoint)

    def register(self, size: int, address: int = 0x7F00_0000_1000, guard: int = 64) -> Memory:
        buffer = self.ffi.new("u8[]", b"\xa5" * (size + 2 * guard))
        view = self.ffi.buffer(buffer, size + 2 * guard)
        view[guard : guard + size] = bytes(size)
        self.kept.append(buffer)
        key = int(self.lib.endpoint_register(self.endpoint, buffer + guard, size, address))
        return Memory(buffer, view, key, address, guard)

    def data(self, content: bytes) -> Any:
        kept = self.ffi.new("u8[]", content)
        self.kept.append(kept)
        return kept

    def send(self, content: bytes, identity: int = 0, immediate: int | None = None) -> bool:
        at = self.data(content)
        if immediate is None:
            return bool(self.lib.rc_post_send(self.pair, identity, at, len(content)))
        return bool(self.lib.rc_post_send_immediate(self.pair, identity, at, len(content), immediate))

    def write(
        self, content: bytes, address: int, key: int, identity: int = 0, immediate: int | None = None
    ) -> bool:
        common = (self.pair, identity, self.data(content), len(content), address, key)
        if immediate is None:
            return bool(self.lib.rc_post_write(*common))
        return bool(self.lib.rc_post_write_immediate(*common, immediate))

    def receive(self, size: int, identity: int = 0) -> Any:
        """Posts a receive and returns its buffer, to be read by `ffi.buffer`."""
        buffer = self.ffi.new("u8[]", max(size, 1))
        self.kept.append(buffer)
        assert self.lib.rc_post_receive(self.pair, identity, buffer, size)
        return self.ffi.buffer(buffer, size)

    def transmit(self, now: int) -> bytes:
        """The next frame, built in two buffers, the first full before the second is begun."""
        spans = self.ffi.new("struct span[2]", [(self._out, CHUNK), (self._out + CHUNK, CHUNK)])
        size = self.lib.rc_transmit(self.pair, spans, 2, now)
        return bytes(self.ffi.buffer(self._out, size))

    def take(self, frame: bytes, now: int, chunk: int = CHUNK) -> bool:
        """Whether the frame, handed over in chunks, was taken."""
        parts = [self.ffi.new("u8[]", frame[at : at + chunk]) for at in range(0, len(frame), chunk)]
        spans = self.ffi.new(
            "struct span[]", [(part, min(chunk, len(frame) - i * chunk)) for i, part in enumerate(parts)]
        )
        taken = self.lib.endpoint_receive(self.endpoint, spans, len(parts), now)
        return bool(taken != self.ffi.NULL)

    def poll(self) -> list[Any]:
        """The completions that are new; `completions` keeps all."""
        found = []
        while self.lib.rc_poll_completion(self.pair, one := self.ffi.new("struct rc_completion *")):
            found.append(one)
        self.completions += found
        return found

    def deadline(self) -> int:
        return int(self.lib.rc_next_deadline(self.pair))

    @property
    def counters(self) -> Any:
        return self.lib.rc_counters(self.pair)

    def drops(self) -> dict[str, int]:
        """How many frames were dropped, by reason; reasons without any left out."""
        counts = self.lib.endpoint_drops(self.endpoint)
        return {name: counts[i] for i, name in enumerate(DROPS) if counts[i]}


@dataclass
class Link:
    """Both directions between two sides."""

    sides: tuple[Side, Side]
    faults: Faults = Faults()
    delay_ns: int = 5_000
    seed: int = 1
    now: int = 1_000_000_000
    frames: list[bytes] = field(default_factory=list)  # all that were sent
    lose: Callable[[int, bytes], bool] = lambda _to, _frame: False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._under_way: list[tuple[int, int, int, bytes]] = []
        self._order = itertools.count()

    def run(self, until: Callable[[], bool] = lambda: False, limit_ns: int = 60 * 10**9) -> bool:
        """Advance the clock until a condition holds, nothing is left to do, or the limit; returns the condition."""
        end = self.now + limit_ns
        while self.now <= end:
            for index, side in enumerate(self.sides):
                self._send(index, side)
                side.poll()
            if until():
                return True
            moment = min(self.sides[0].deadline(), self.sides[1].deadline(), self._next_arrival())
            if moment == NEVER:
                return until()
            self.now = max(self.now, moment)
            self._deliver()
        return until()

    def _send(self, index: int, side: Side) -> None:
        while side.deadline() <= self.now and (frame := side.transmit(self.now)):
            self.frames.append(frame)
            if self.lose(1 - index, frame) or self._random.random() < self.faults.loss:
                continue
            if frame[15] & 3 and self._random.random() < self.faults.mark:
                frame = marked(frame)
            for _ in range(2 if self._random.random() < self.faults.double else 1):
                held = self._random.random() < self.faults.hold
                when = self.now + self.delay_ns * (self._random.randint(2, 20) if held else 1)
                heapq.heappush(self._under_way, (when, next(self._order), 1 - index, frame))

    def _next_arrival(self) -> int:
        return self._under_way[0][0] if self._under_way else NEVER

    def _deliver(self) -> None:
        while self._next_arrival() <= self.now:
            _when, _order, to, frame = heapq.heappop(self._under_way)
            self.sides[to].take(frame, self.now)


def marked(frame: bytes) -> bytes:
    """The frame with an ECN mark and a new IPv4 checksum; the ICRC does not cover them."""
    header = bytearray(frame[14:34])
    header[1] |= 3
    header[10:12] = bytes(2)
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, 20, 2))
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = (0xFFFF - ((total & 0xFFFF) + (total >> 16))).to_bytes(2, "big")
    return frame[:14] + bytes(header) + frame[34:]


def connect(core: Core, depth: int = 64, psns: tuple[int, int] = (0, 0), **options: Any) -> tuple[Side, Side]:
    """Two sides that are connected; the options are fields of `struct rc_config`, the same for both."""
    sides = (Side(core, 1, depth), Side(core, 2, depth))
    for index, side in enumerate(sides):
        assert core.lib.rc_connect(side.pair, configuration(core, sides, index, psns, options), 1_000_000_000)
    return sides


class Numbered(Protocol):
    """One end of a connection, by its queue pair's number."""

    @property
    def qpn(self) -> int: ...


def configuration(
    core: Core, sides: tuple[Numbered, Numbered], index: int, psns: tuple[int, int], options: dict[str, Any]
) -> Any:
    """The configuration of one side."""
    config = core.ffi.new("struct rc_config *")
    core.lib.rc_defaults(config, options.get("rate_bps", 0))
    config.local_mac, config.peer_mac = MACS[index], MACS[1 - index]
    config.local_ip, config.peer_ip = IPS[index], IPS[1 - index]
    config.peer_qpn = sides[1 - index].qpn
    config.send_psn, config.receive_psn = psns[index], psns[1 - index]
    for name, value in options.items():
        setattr(config, name, value)
    return config
