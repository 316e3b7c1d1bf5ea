# SPDX-License-Identifier: Apache-2.0
"""The core of a soft switch on a virtual clock, and the pauses of a single port."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from hipsnet.stack.building import library
from hipsnet.stack.switch.counters import SwitchCounters, event_ring, from_bytes
from hipsnet.stack.switch.events import SwitchEvent, from_rows

NEVER = 2**64 - 1
MTU_FRAME = 9014
US, MS, S = 1_000, 1_000_000, 1_000_000_000
LONGEST_QUANTA = 0xFFFF
_CORE = ("core", "receive", "bridge", "router", "buffer", "egress", "marking", "storm")
_WIDE = {
    "rig_new": ctypes.c_void_p,
    "rig_receive": ctypes.c_uint64,
    "rig_take": ctypes.c_uint64,
    "rig_next": ctypes.c_uint64,
    "rig_watch": ctypes.c_uint64,
    "rig_discard": ctypes.c_uint64,
    "rig_events": ctypes.c_void_p,
    "rig_queue": ctypes.c_uint64,
    "rig_shared": ctypes.c_uint64,
    "rig_headroom": ctypes.c_uint64,
    "rig_counters_bytes": ctypes.c_uint64,
    "rig_file_head": ctypes.c_uint64,
    "rig_admit": ctypes.c_bool,
    "rig_fix": ctypes.c_bool,
    "pauses_new": ctypes.c_void_p,
    "pauses_is_paused": ctypes.c_bool,
    "pauses_refresh": ctypes.c_uint64,
}


class _Group(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("reserved", "shared", "headroom", "most", "most_headroom")),
        ("stopped", ctypes.c_bool),
    )


@cache
def _library() -> ctypes.CDLL:
    sources = [
        str(Path(__file__).with_name("switch_rig.c")),
        *(f"switch/{name}.c" for name in _CORE),
        "cable/watchdog.c",
    ]
    with TemporaryDirectory() as folder:
        found = ctypes.CDLL(str(library("switch-rig", sources, Path(folder))))
    for name, kind in _WIDE.items():
        getattr(found, name).restype = kind
    found.rig_group.restype = ctypes.POINTER(_Group)
    found.rig_counters.restype = ctypes.c_void_p
    found.pauses_counters.restype = ctypes.POINTER(ctypes.c_uint64)
    return found


def file_head(switches: int) -> bytes:
    """The header of the counters file, before the switches."""
    buffer = (ctypes.c_uint8 * (1 << 20))()
    size = _library().rig_file_head(buffer, _u64(len(buffer)), _u64(switches))
    return bytes(buffer[:size])


def _u64(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)


@dataclass(frozen=True)
class Class:
    """The thresholds of a priority, in bytes."""

    lossless: bool = False
    reserved: int = 0
    headroom: int = 0
    xoff: int = 0
    xon: int = 0
    alpha: float = 1.0
    hysteresis: int = 0


class Taken(NamedTuple):
    """A frame that leaves."""

    bytes: int
    ingress: int
    priority: int


class Rig:
    """A switch whose ports have one rate. A frame is only a length unless `frame` gives its content."""

    def __init__(
        self,
        ports: int = 3,
        shared: int = 1 << 20,
        classes: dict[int, Class] | None = None,
        rate_bps: int = 0,
        burst_ns: int = 0,
        weights: tuple[int, ...] = (0,) * 8,
        memory: int = 1 << 20,
        owed: int = 0,
        marking: tuple[int, int, int, float] | None = None,
        seed: int = 1,
    ) -> None:
        self._c = _library()
        self.ports = ports
        self._rig = ctypes.c_void_p(
            self._c.rig_new(ctypes.c_uint32(ports), _u64(shared), _u64(memory), _u64(owed), _u64(seed))
        )
        for priority in range(8):
            found = (classes or {}).get(priority, Class())
            self._c.rig_class(
                self._rig, priority, found.lossless, _u64(found.reserved), _u64(found.headroom),
                _u64(found.xoff), _u64(found.xon), ctypes.c_double(found.alpha), _u64(found.hysteresis),
            )  # fmt: skip
        if marking:
            priority, kmin, kmax, pmax = marking
            self._c.rig_marking(self._rig, priority, _u64(kmin), _u64(kmax), ctypes.c_double(pmax))
        shares = (ctypes.c_uint32 * 8)(*weights)
        self._c.rig_start(self._rig, _u64(rate_bps), _u64(burst_ns), shares, MTU_FRAME)

    def close(self) -> None:
        self._c.rig_free(self._rig)

    def fix(self, mac: bytes, port: int) -> bool:
        return bool(self._c.rig_fix(self._rig, mac, port))

    def routes(self, routes: list[tuple[int, int, list[int]]]) -> None:
        """Make it a router: (prefix, mask, ports), the longest prefix first."""
        self._c.rig_routes(self._rig, len(routes))
        for prefix, mask, ports in routes:
            ways = (ctypes.c_uint32 * len(ports))(*ports)
            self._c.rig_route(self._rig, ctypes.c_uint32(prefix), ctypes.c_uint32(mask), ways, len(ports))

    def receive(self, ingress: int, frame: bytearray, now: int = 0) -> tuple[set[int], int]:
        """The ports that a frame has to leave by, and its priority. A router changes the frame."""
        held = (ctypes.c_uint8 * len(frame)).from_buffer(frame)
        priority = ctypes.c_uint8()
        mask = self._c.rig_receive(self._rig, ingress, held, len(frame), ctypes.byref(priority), _u64(now))
        return {port for port in range(64) if mask >> port & 1}, priority.value

    def admit(
        self,
        ingress: int,
        egress: int,
        priority: int,
        size: int,
        now: int = 0,
        frame: bytearray | None = None,
    ) -> bool:
        held = None if frame is None else (ctypes.c_uint8 * len(frame)).from_buffer(frame)
        return bool(self._c.rig_admit(self._rig, ingress, egress, priority, size, held, _u64(now)))

    def take(self, egress: int, now: int = 0) -> Taken | None:
        found = self._c.rig_take(self._rig, egress, _u64(now))
        return Taken(found >> 16, found >> 8 & 255, found & 255) if found else None

    def watchdog(self, detect_ns: int, restore_ns: int, action: str) -> None:
        number = 1 + ("drop", "forward", "alert").index(action)
        self._c.rig_watchdog(self._rig, _u64(detect_ns), _u64(restore_ns), number)

    def watch(self, now: int) -> int:
        """Poll the queues; return the time of the next poll."""
        return int(self._c.rig_watch(self._rig, _u64(now)))

    def discard(self, egress: int, now: int = 0) -> Taken | None:
        found = self._c.rig_discard(self._rig, egress, _u64(now))
        return Taken(found >> 16, found >> 8 & 255, found & 255) if found else None

    def events(self) -> tuple[SwitchEvent, ...]:
        """Through the reader that everybody uses; the switch is called `rig`."""
        ring = event_ring()
        rows = np.frombuffer(ctypes.string_at(self._c.rig_events(self._rig), ring.itemsize), ring, 1)
        return from_rows(rows[0], ("rig",))

    def pause(self, port: int, priority: int, now: int = 0) -> tuple[int, int] | None:
        """(enabled priorities as bits, quanta of one) of the PFC frame that has to be sent now."""
        found = self._c.rig_pause(self._rig, port, priority, _u64(now))
        return (found >> 16 & 255, found & 0xFFFF) if found else None

    def settle(self, now: int = 0) -> None:
        self._c.rig_settle(self._rig, _u64(now))

    def next_ns(self, port: int, now: int = 0) -> int:
        return int(self._c.rig_next(self._rig, port, _u64(now)))

    def ahead(self, chunks: int) -> None:
        """The capacity of every port's ring."""
        self._c.rig_ahead(self._rig, ctypes.c_uint32(chunks))

    def ring(self, port: int) -> int:
        return int(self._c.rig_ring(self._rig, port))

    def memory(self, chunks: int) -> None:
        self._c.rig_memory(self._rig, _u64(chunks))

    def group(self, port: int, priority: int) -> Any:
        return self._c.rig_group(self._rig, port, priority).contents

    def queue(self, port: int, priority: int) -> int:
        return int(self._c.rig_queue(self._rig, port, priority))

    @property
    def shared(self) -> int:
        return int(self._c.rig_shared(self._rig))

    @property
    def headroom(self) -> int:
        return int(self._c.rig_headroom(self._rig))

    def counters(self) -> SwitchCounters:
        """Through the reader that everybody uses."""
        return from_bytes(self.counted())

    def counted(self) -> bytes:
        """The memory of the counters."""
        size = int(self._c.rig_counters_bytes(self._rig))
        return ctypes.string_at(self._c.rig_counters(self._rig), size)


@contextmanager
def rig(**options: Any) -> Iterator[Rig]:
    made = Rig(**options)
    try:
        yield made
    finally:
        made.close()


class Pauses:
    """The pauses of one port."""

    def __init__(self, rate_bps: int) -> None:
        self._c = _library()
        self._pauses = ctypes.c_void_p(self._c.pauses_new(_u64(rate_bps)))

    def close(self) -> None:
        self._c.pauses_free(self._pauses)

    def receive(self, quanta: dict[int, int], now: int) -> None:
        values = (ctypes.c_uint16 * 8)(*(quanta.get(priority, 0) for priority in range(8)))
        self._c.pauses_receive(self._pauses, sum(1 << priority for priority in quanta), values, _u64(now))

    def is_paused(self, priority: int, now: int) -> bool:
        return bool(self._c.pauses_is_paused(self._pauses, priority, _u64(now)))

    def watch(self, priority: int, held: int, xoff: int, xon: int, now: int) -> None:
        self._c.pauses_watch(self._pauses, priority, _u64(held), _u64(xoff), _u64(xon), _u64(now))

    def take(self, priority: int, now: int) -> tuple[int, int] | None:
        found = self._c.pauses_take(self._pauses, priority, _u64(now))
        return (found >> 16, found & 0xFFFF) if found else None

    @property
    def refresh_ns(self) -> int:
        return int(self._c.pauses_refresh(self._pauses))

    def counters(self, priority: int, now: int) -> dict[str, int]:
        found = self._c.pauses_counters(self._pauses, _u64(now))
        names = ("frames", "transitions", "us")
        return {
            f"{way}_{name}": int(found[6 * priority + 3 * side + at])
            for side, way in enumerate(("rx", "tx"))
            for at, name in enumerate(names)
        }


@contextmanager
def pauses(rate_bps: int) -> Iterator[Pauses]:
    made = Pauses(rate_bps)
    try:
        yield made
    finally:
        made.close()
