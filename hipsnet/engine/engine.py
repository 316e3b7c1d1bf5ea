# SPDX-License-Identifier: Apache-2.0
"""The Python interface of the engine of one communicator."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.engine.library import library
from hipsnet.engine.plans import PlanArrays
from hipsnet.engine.reduction import DTYPES
from hipsnet.engine.wire.wire import Wire
from hipsnet.errors import TransportError
from hipsnet.stack.roce.core import Core
from hipsnet.transport.interface import Peer

OPERATIONS = ("sum", "prod", "max", "min", "mean", "copy")
"""In the order of `enum call_operation`."""

SIGNALS_S = 0.25
"""Maximum time of a wait in C, after which Python handles signals and the caller's `on_slice`."""

SLOTS_BYTES = 4 << 20
"""Staging slots of a neighbour, together; at least FEWEST_SLOTS."""

FEWEST_SLOTS, MOST_SLOTS = 4, 16

FAREWELL_S = 1.0
"""Maximum time for the last messages after a failure."""

_NS = 1_000_000_000
_ALIGNMENT = 8  # of slots: reductions read them as arrays of the largest dtype


_open: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _abandon_all() -> None:
    """No thread may use arrays when the interpreter frees them."""
    for engine in list(_open):
        engine.abandon()


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

    @classmethod
    def of_chunk(cls, warn_s: float, timeout_s: float, chunk_bytes: int) -> Limits:
        """The limits for segments of at most `chunk_bytes`."""
        slots = min(MOST_SLOTS, max(FEWEST_SLOTS, SLOTS_BYTES // chunk_bytes))
        return cls(warn_s, timeout_s, slots=slots, slot_bytes=-(-chunk_bytes // _ALIGNMENT) * _ALIGNMENT)

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


@dataclass(frozen=True, eq=False)
class Piece:
    """An array (1-D, C-contiguous) that holds the elements of the vector from `first` on.

    `has_result`: a mean is divided here at the end.
    """

    array: NDArray[Any]
    first: int = 0
    has_result: bool = True


@dataclass(eq=False)
class Call:
    """A call that has been submitted. `state` changes once, after `finish` has been called for a call that is done.

    `standing`: how far a call that failed has come (`struct call_standing`), or None.
    """

    sequence: int
    keeps: tuple[Any, ...]
    finish: Callable[[], None] | None = None
    state: State = State.ACTIVE
    standing: Any = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_over(self) -> bool:
        return self.state != State.ACTIVE


class EngineFailed(Exception):
    """No call can be submitted: one has failed (`Engine.failure` has the reason), or the engine is closed."""


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
        longest = min(limits.eager_bytes, wire.message_max - lib.MESSAGE_HEADER_MAX)
        self._eager_bytes = longest // _ALIGNMENT * _ALIGNMENT
        config.eager_bytes = self._eager_bytes
        for name in ("warn", "timeout", "heartbeat"):
            setattr(config, f"{name}_ns", int(getattr(limits, f"{name}_s") * _NS))
        self._wire = wire
        self._limits = limits
        self._handle = lib.engine_open(config, wire.operations, wire.handle)
        if self._handle == ffi.NULL:
            wire.close()
            raise TransportError("no memory or descriptors are left for the engine")
        self._order = threading.Lock()  # held while a call is submitted
        self._kept: dict[int, Call] = {}  # keeps the memory of calls alive, in the order of submission
        self._users = threading.Condition()
        self._inside = 0  # threads in C
        self._is_closed = False
        self._process = os.getpid()
        _open.add(self)
        self._failure: Any = None

    @property
    def library(self) -> Core:
        return self._library

    def submit(
        self,
        plan: PlanArrays,
        pieces: Sequence[Piece],
        dtype: np.dtype[Any],
        operation: str,
        *,
        purpose: int = 0,
        cuts: int = 0,
        is_async: bool = False,
        finish: Callable[[], None] | None = None,
    ) -> Call:
        """Start a call on `pieces`, in ascending order; wait for a free place if the window is full.

        Each segment of the plan that this rank sends or receives lies within one piece. `purpose` and `cuts` are
        numbers that must be the same on every rank. `finish` is called once when the call is done, before its
        state changes. Raises EngineFailed, or TransportError if the memory cannot be registered.
        """
        ffi, lib = self._library
        struct = plan.struct(self._library)
        signature = ffi.new("struct signature *")
        signature.count, signature.cuts, signature.purpose = plan.count, cuts, purpose
        signature.dtype, signature.operation = DTYPES.index(dtype), OPERATIONS.index(operation)
        buffers = ffi.new("struct call_buffer[]", len(pieces))
        for buffer, piece in zip(buffers, pieces, strict=True):
            buffer.memory = ffi.cast("void *", piece.array.ctypes.data)
            buffer.first, buffer.count, buffer.has_result = piece.first, piece.array.size, piece.has_result
        with self._order, self._in_use():
            if plan.longest * dtype.itemsize > self._eager_bytes:
                self._wire.prepare([piece.array for piece in pieces])
            while True:
                sequence = int(
                    lib.engine_submit(self._handle, struct, signature, buffers, len(pieces), is_async)
                )
                if sequence:
                    break
                self._make_place()
            call = Call(sequence, (plan, struct, tuple(pieces)), finish)
            self._kept[sequence] = call
        return call

    def wait(
        self, call: Call, timeout_s: float | None = None, on_slice: Callable[[], None] | None = None
    ) -> State:
        """Wait until the call has ended or the timeout expires; return its state.

        A signal handler may raise; `on_slice` is called at least every SIGNALS_S seconds.
        """
        end_s = None if timeout_s is None else monotonic() + timeout_s
        with self._in_use():
            while not call.is_over:
                left_s = SIGNALS_S if end_s is None else min(SIGNALS_S, max(0.0, end_s - monotonic()))
                found = State(self._library.lib.engine_wait(self._handle, call.sequence, int(left_s * _NS)))
                if found != State.ACTIVE:
                    self._settle(call, found)
                elif end_s is not None and monotonic() >= end_s:
                    break
                elif on_slice is not None:
                    on_slice()
        return call.state

    def wait_any(self, ended: int) -> int:
        """Wait until the number of calls that have ended is not `ended`, at most SIGNALS_S; return it."""
        with self._in_use():
            return int(self._library.lib.engine_wait_any(self._handle, ended, int(SIGNALS_S * _NS)))

    def poll(self, call: Call) -> State:
        """The state of a call now."""
        if not call.is_over:
            with self._in_use():
                found = State(self._library.lib.engine_poll(self._handle, call.sequence))
                if found != State.ACTIVE:
                    self._settle(call, found)
        return call.state

    def fail(self, why: str) -> None:
        """Fail all calls, on this rank and on the peers."""
        with self._in_use():
            self._library.lib.engine_fail(self._handle, why.encode()[:1000])

    def failure(self) -> Any:
        """`struct core_failure`, or None."""
        if self._failure is None and not self._is_closed:
            ffi, lib = self._library
            found = ffi.new("struct core_failure *")
            with self._in_use():
                self._failure = found if lib.engine_failure(self._handle, found) else None
        return self._failure

    def delay(self, connection: int) -> Any:
        """`struct peer_delay` of a connection."""
        with self._in_use():
            return self._library.lib.engine_delay(self._handle, connection)

    @property
    def is_busy(self) -> bool:
        """Whether calls are under way."""
        return any(not call.is_over for call in list(self._kept.values()))

    def wait_all(self) -> None:
        """Wait until no call is under way."""
        while calls := [call for call in list(self._kept.values()) if not call.is_over]:
            self.wait(calls[0])

    def close(self) -> None:
        """Wait for the calls under way, then close the connections after all data has been sent.

        Other threads that wait for a call return first. Closing twice is allowed.
        """
        with self._order:
            if self._is_closed:
                return
            self.wait_all()
            farewell_s = self._limits.timeout_s
            if self.failure():
                farewell_s = min(farewell_s, FAREWELL_S)
            with self._users:
                self._is_closed = True
                self._users.wait_for(lambda: not self._inside)
            self._library.lib.engine_close(self._handle, int(farewell_s * _NS))
            self._wire.close()
            self._kept.clear()

    def abandon(self) -> None:
        """End without a close: when the program ends, or has lost the engine. Calls under way fail everywhere."""
        if self._is_closed or os.getpid() != self._process:
            return
        if self.is_busy:
            self.fail("its program has ended")
        with self._users:
            self._is_closed = True
            if not self._users.wait_for(lambda: not self._inside, FAREWELL_S):
                return  # a thread is still in C: its memory must stay
        self._library.lib.engine_close(self._handle, int(FAREWELL_S * _NS))
        self._wire.close()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.abandon()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        """The engine is not freed meanwhile."""
        with self._users:
            if self._is_closed:
                raise EngineFailed
            self._inside += 1
        try:
            yield
        finally:
            with self._users:
                self._inside -= 1
                if self._is_closed:
                    self._users.notify_all()

    def _make_place(self) -> None:
        """Wait until the oldest call has ended. Raises if that is not what prevents a submission."""
        if self.failure():
            raise EngineFailed
        oldest = next(iter(self._kept.values()), None)
        if oldest is None:
            raise TransportError("the memory of a call cannot be registered")
        self.wait(oldest)

    def _settle(self, call: Call, found: State) -> None:
        """Finish a call that has ended, once. A call that failed keeps its memory until the engine is closed."""
        with call.lock:
            if call.is_over:
                return
            if found == State.DONE:
                self._library.lib.engine_release(self._handle, call.sequence)
                del self._kept[call.sequence]
                if call.finish is not None:
                    call.finish()
                call.keeps, call.finish = (), None
            else:
                self.failure()
                call.standing = self._standing(call)
            call.state = found

    def _standing(self, call: Call) -> Any:
        ffi, lib = self._library
        found = ffi.new("struct call_standing *")
        return found if lib.engine_where(self._handle, call.sequence, found) else None
