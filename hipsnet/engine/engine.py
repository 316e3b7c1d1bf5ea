# SPDX-License-Identifier: Apache-2.0
"""The Python interface of the engine of one communicator."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from time import monotonic
from typing import Any

from numpy.typing import NDArray

from hipsnet.engine.library import library
from hipsnet.engine.plans import PlanArrays
from hipsnet.engine.reduction import DTYPES
from hipsnet.engine.wire.wire import Wire
from hipsnet.errors import TransportError
from hipsnet.transport.interface import Peer

OPERATIONS = ("sum", "prod", "max", "min", "mean", "copy")
"""In the order of `enum call_operation`."""

SIGNALS_S = 0.25
"""Maximum time of a wait in C, after which Python handles signals."""

_NS = 1_000_000_000


@dataclass(frozen=True)
class Limits:
    """Timeouts in seconds, and the slots for each neighbour: staging slots and slots for eager messages.

    A segment has at most `slot_bytes` bytes. A call is eager if none of its segments exceeds `eager_bytes`.
    """

    warn_s: float
    timeout_s: float
    slots: int = 16
    slot_bytes: int = 256 << 10
    eager_slots: int = 16
    eager_bytes: int = 32 << 10
    reserve: int = 2

    @property
    def heartbeat_s(self) -> float:
        return min(1.0, self.warn_s / 4, self.timeout_s / 4)

    @property
    def message_max(self) -> int:
        """Size of the longest message in bytes, including the header."""
        return self.eager_bytes + int(library().lib.MESSAGE_HEADER_MAX)


class State(IntEnum):
    """The state of a call: `enum call_state`."""

    UNKNOWN = 0
    ACTIVE = 1
    DONE = 2
    FAILED = 3


class Reason(IntEnum):
    """The reason of a failure, which ends all calls: `enum failure_reason`."""

    NONE = 0
    CLOSED = 1
    SILENT = 2
    ABSENT = 3
    STALLED = 4
    MISMATCH = 5
    PROTOCOL = 6
    LOCAL = 7


class Engine:
    """Runs calls over a wire. Any thread may submit and wait; calls run in the order of submission."""

    def __init__(self, wire: Wire, rank: int, ranks: int, peers: Sequence[Peer], limits: Limits) -> None:
        ffi, lib = self._library = wire.library
        config = ffi.new("struct core_config *")
        config.rank, config.ranks, config.connections = rank, ranks, len(peers)
        levels = ffi.new("u32[]", [peer.port for peer in peers] or 1)
        ranks_of_peers = ffi.new("u32[]", [peer.rank for peer in peers] or 1)
        config.peer_rank, config.peer_level = ranks_of_peers, levels
        for name in ("slots", "slot_bytes", "eager_slots", "reserve"):
            setattr(config, name, getattr(limits, name))
        self._eager_bytes = min(limits.eager_bytes, wire.message_max - lib.MESSAGE_HEADER_MAX)
        config.eager_bytes = self._eager_bytes
        for name in ("warn", "timeout", "heartbeat"):
            setattr(config, f"{name}_ns", int(getattr(limits, f"{name}_s") * _NS))
        self._wire = wire
        self._limits = limits
        self._handle = lib.engine_open(config, wire.operations, wire.handle)
        if self._handle == ffi.NULL:
            raise TransportError("no memory or descriptors are left for the engine")
        self._lock = threading.Lock()
        self._kept: dict[int, Work] = {}  # keeps the memory of active calls alive

    def submit(
        self, plan: PlanArrays, arrays: Sequence[NDArray[Any]], operation: str, purpose: int, is_async: bool
    ) -> Work:
        """Start a call on `arrays` (1-D, C-contiguous, of one dtype), which form a vector of `plan.count` elements.

        Each segment of the plan lies within one array. `purpose` must be the same number on every rank.
        Raises TransportError if the wire cannot register an array; then the call has not started.
        """
        if plan.longest * arrays[0].itemsize > self._eager_bytes:
            self._wire.prepare(arrays)
        ffi, lib = self._library
        struct = plan.struct(self._library)
        signature = ffi.new("struct signature *")
        signature.count = plan.count
        signature.dtype = DTYPES.index(arrays[0].dtype)
        signature.operation = OPERATIONS.index(operation)
        signature.purpose = purpose
        buffers = ffi.new("struct call_buffer[]", len(arrays))
        first = 0
        for buffer, array in zip(buffers, arrays, strict=True):
            buffer.memory = ffi.cast("void *", array.ctypes.data)
            buffer.first, buffer.count, buffer.has_result = first, array.size, True
            first += array.size
        with self._lock:
            sequence = int(lib.engine_submit(self._handle, struct, signature, buffers, len(arrays), is_async))
            work = Work(self, sequence, (plan, struct, tuple(arrays)))
            if sequence:
                self._kept[sequence] = work
        return work

    def wait(self, sequence: int, timeout_s: float | None = None) -> State:
        """Wait until the call has ended or the timeout expires; return its state. A signal handler may raise."""
        end_s = None if timeout_s is None else monotonic() + timeout_s
        while True:
            left_s = SIGNALS_S if end_s is None else min(SIGNALS_S, max(0.0, end_s - monotonic()))
            state = State(self._library.lib.engine_wait(self._handle, sequence, int(left_s * _NS)))
            if state != State.ACTIVE or (end_s is not None and monotonic() >= end_s):
                return state

    def poll(self, sequence: int) -> State:
        return State(self._library.lib.engine_poll(self._handle, sequence))

    def release(self, sequence: int) -> None:
        self._library.lib.engine_release(self._handle, sequence)
        with self._lock:
            self._kept.pop(sequence, None)

    def fail(self, why: str) -> None:
        """Fail all calls, on this rank and on the peers."""
        self._library.lib.engine_fail(self._handle, why.encode()[:1000])

    def failure(self) -> Any:
        """`struct core_failure`, or None."""
        ffi, lib = self._library
        found = ffi.new("struct core_failure *")
        return found if lib.engine_failure(self._handle, found) else None

    def close(self) -> None:
        self._library.lib.engine_close(self._handle, int(self._limits.timeout_s * _NS))
        self._wire.close()


@dataclass(eq=False)
class Work:
    """A call that has been submitted."""

    engine: Engine
    sequence: int
    keeps: tuple[Any, ...]
