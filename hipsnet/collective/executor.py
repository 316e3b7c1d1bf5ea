# SPDX-License-Identifier: Apache-2.0
"""Runs a plan: one thread of control sends what may be sent and applies what has arrived, until all is done.

What is to be reduced comes by way of a ring for each neighbour (`hipsnet.collective.staging`): a sender never has
more under way than fits into it. From 64 KiB on, a chunk is at most a quarter of the plan's largest transfer
(`hipsnet.collective.plan`), so the staging memory in use for a neighbour is never more than the largest transfer
that is in flight from it. Finished pieces are written straight into the caller's array.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective import protocol
from hipsnet.collective.neighbour import Neighbour
from hipsnet.collective.plan import Plan, Segment
from hipsnet.collective.progress import Progress
from hipsnet.collective.protocol import Call, Kind, Ready
from hipsnet.collective.staging import SLOTS, Staging
from hipsnet.errors import CollectiveError, TransportError
from hipsnet.transport.interface import Completion, Event, Peer, Region, Transport

TICK_S = 0.25
LAST_WORDS_S = 1.0

Reduction = Callable[[NDArray[Any], NDArray[Any]], None]
"""Combines the second array into the first, in place."""

log = logging.getLogger("hipsnet")


@dataclass(frozen=True)
class Timeouts:
    """How long a neighbour may be silent, in seconds, before it is warned of and before it is given up."""

    warn_s: float
    timeout_s: float

    @property
    def heartbeat_s(self) -> float:
        """How often a rank that waits says so."""
        return min(1.0, self.warn_s / 4, self.timeout_s / 4)


class Executor:
    """Holds the connections of one rank. Once a collective has failed, all later ones do."""

    def __init__(self, transport: Transport, rank: int, peers: Sequence[Peer], timeouts: Timeouts) -> None:
        """The peers must be connected already, in this order."""
        self._transport = transport
        self._rank = rank
        self._timeouts = timeouts
        self._sequence = 0
        self._failure: str | None = None
        now = monotonic()
        self._neighbours = [
            Neighbour(i, peer, now, now, slots_free_until=SLOTS) for i, peer in enumerate(peers)
        ]
        self._staging = Staging(transport, len(peers))

    def run(self, plan: Plan, array: NDArray[np.generic], operation: str, reduction: Reduction) -> None:
        """Run the plan in place on `array` (flat, contiguous, `plan.count` elements).

        Raises CollectiveError naming rank, peer, level, stage and bytes done; the array is then undefined.
        """
        if self._failure is not None:
            raise CollectiveError(f"rank {self._rank}: an earlier collective failed: {self._failure}")
        self._array, self._itemsize, self._reduction = array, array.itemsize, reduction
        self._progress = Progress(plan, self._apply)
        try:
            if self._staging.make_room(plan.chunk * array.itemsize):
                for neighbour in self._neighbours:  # theirs are others now, too
                    neighbour.staging_key = 0
            region = self._transport.register(array.view(np.uint8))
        except TransportError as error:
            self._fail(self._rank, str(error), None)
        self._enter(plan, region, Call(plan.count, array.dtype.name, operation))
        self._loop()
        self._transport.flush()
        self._transport.deregister(region)
        del self._array, self._region  # the caller alone decides how long its memory lives

    def close(self) -> None:
        """Let what is still queued leave, then close the connections."""
        if self._failure is None:
            self._transport.drain(self._timeouts.timeout_s)
            self._transport.close()

    # entering

    def _enter(self, plan: Plan, region: Region, call: Call) -> None:
        self._sequence += 1
        self._region, self._call = region, call
        now = monotonic()
        for neighbour in self._neighbours:
            index = neighbour.connection
            neighbour.sends_now, neighbour.sent_now, neighbour.left_now = plan.sends[index], 0, 0
            neighbour.receives_now, neighbour.received_now = plan.receives[index], 0
            neighbour.heard_s = now
            neighbour.emptied_told = neighbour.emptied
            ready = Ready(self._sequence, region.key, self._staging.key(index), neighbour.emptied, call)
            self._send_control(neighbour, protocol.pack_ready(ready))
        for neighbour in self._neighbours:
            ready_already, neighbour.ready, neighbour.next_ready = neighbour.next_ready, None, None
            if ready_already is not None:
                self._on_ready(neighbour, ready_already)
            early, neighbour.early = neighbour.early, []
            for number in early:
                self._arrived(neighbour, number)
            if neighbour.closed:
                self._lost(neighbour)
        self._push_all()

    def _on_ready(self, neighbour: Neighbour, ready: Ready) -> None:
        """The neighbour is in the same collective."""
        neighbour.ready, neighbour.staging_key = ready, ready.staging_key
        if ready.call != self._call or ready.sequence != self._sequence:
            self._fail(
                neighbour.peer.rank,
                f"it entered collective {ready.sequence}, {ready.call}, but rank {self._rank} "
                f"entered {self._sequence}, {self._call}; every rank must call with the same size, dtype and op",
                neighbour,
            )

    # the loop

    def _loop(self) -> None:
        next_look = monotonic() + TICK_S
        while self._progress.left or any(neighbour.ready is None for neighbour in self._neighbours):
            completions = self._transport.poll(TICK_S)
            for completion in completions:
                self._handle(completion)
            if completions:
                self._push_all()
            now = monotonic()
            if now >= next_look:
                next_look = now + TICK_S
                self._look_for_silence(now)

    def _handle(self, completion: Completion) -> None:
        neighbour = self._neighbours[completion.connection]
        if completion.event == Event.SENT:
            neighbour.left_now += 1
            self._progress.sent(neighbour.sends_now[completion.immediate])
            return
        neighbour.heard_s = monotonic()
        if completion.event == Event.WRITTEN:
            if neighbour.next_ready is not None:
                neighbour.early.append(completion.immediate)
            else:
                self._arrived(neighbour, completion.immediate)
        elif completion.event == Event.MESSAGE:
            self._listen(neighbour, completion.payload)
        else:
            neighbour.closed = completion.payload.decode()
            if neighbour.is_awaited():
                self._lost(neighbour)

    def _listen(self, neighbour: Neighbour, message: bytes) -> None:
        kind = message[0]
        if kind == Kind.READY:
            ready = protocol.unpack_ready(message)
            neighbour.slots_free_until = ready.emptied + SLOTS
            if ready.sequence > self._sequence:
                neighbour.next_ready = ready
            else:
                self._on_ready(neighbour, ready)
        elif kind == Kind.CREDIT:
            neighbour.slots_free_until = protocol.unpack_credit(message) + SLOTS
        elif kind == Kind.ABORT:
            culprit, reason = protocol.unpack_abort(message)
            self._fail(culprit, reason, None, told_by=neighbour)

    # segments

    def _arrived(self, neighbour: Neighbour, number: int) -> None:
        segment = neighbour.receives_now[number]
        neighbour.received_now += 1
        if segment.reduces:
            neighbour.fill(segment.index)
        self._progress.arrived(segment)

    def _apply(self, segment: Segment) -> None:
        """Combine a staged segment with the array; what is not to be reduced is in its place already."""
        if not segment.reduces:
            return
        neighbour = self._neighbours[segment.connection]
        target = self._array[segment.start : segment.stop]
        slot = neighbour.slot_of[segment.index]
        staged = self._staging.view(segment.connection, slot, len(target), self._array.dtype)
        self._reduction(target, staged)
        neighbour.empty(segment.index)
        self._give_credit(neighbour)

    def _give_credit(self, neighbour: Neighbour) -> None:
        if neighbour.emptied - neighbour.emptied_told >= SLOTS // 2 and neighbour.received_now < len(
            neighbour.receives_now
        ):
            neighbour.emptied_told = neighbour.emptied
            self._send_control(neighbour, protocol.pack_credit(neighbour.emptied))

    def _push_all(self) -> None:
        for neighbour in self._neighbours:
            self._push(neighbour)

    def _push(self, neighbour: Neighbour) -> None:
        """Post, in order, what waits for nothing any more and has a place to go to."""
        itemsize = self._itemsize
        while neighbour.sent_now < len(neighbour.sends_now):
            segment = neighbour.sends_now[neighbour.sent_now]
            place = self._place(neighbour, segment) if self._progress.may_send(segment) else None
            if place is None:
                break
            neighbour.sent_now += 1
            start, size = segment.start * itemsize, (segment.stop - segment.start) * itemsize
            self._transport.post_write(
                neighbour.connection, self._region, start, size, *place, segment.number
            )

    def _place(self, neighbour: Neighbour, segment: Segment) -> tuple[int, int] | None:
        """(key, offset) of the peer's memory for this segment; None while there is no room."""
        if not segment.reduces:
            return (neighbour.ready.key, segment.start * self._itemsize) if neighbour.ready else None
        if not neighbour.staging_key or neighbour.slots_used >= neighbour.slots_free_until:
            return None
        offset = self._staging.offset(neighbour.slots_used)
        neighbour.slots_used += 1
        return neighbour.staging_key, offset

    def _send_control(self, neighbour: Neighbour, message: bytes) -> None:
        if not neighbour.closed:
            self._transport.post_message(neighbour.connection, message)

    # failures

    def _look_for_silence(self, now_s: float) -> None:
        for neighbour in self._neighbours:
            if neighbour.closed:
                continue
            if now_s - neighbour.spoke_s >= self._timeouts.heartbeat_s:
                neighbour.spoke_s = now_s
                self._send_control(neighbour, protocol.HEARTBEAT)
            silent_s = now_s - neighbour.heard_s
            if not neighbour.is_awaited():
                continue
            if silent_s >= self._timeouts.timeout_s:
                self._fail(neighbour.peer.rank, f"it has been silent for {silent_s:.1f} s", neighbour)
            if silent_s >= self._timeouts.warn_s and not neighbour.warned:
                log.warning("rank %d: %s is silent for %.1f s", self._rank, neighbour.name, silent_s)
            neighbour.warned = silent_s >= self._timeouts.warn_s

    def _lost(self, neighbour: Neighbour) -> None:
        self._fail(neighbour.peer.rank, neighbour.closed, neighbour)

    def _fail(
        self, culprit: int, reason: str, at: Neighbour | None, told_by: Neighbour | None = None
    ) -> NoReturn:
        """Tell every neighbour whose fault it is, close everything, and raise."""
        whose = f"rank {culprit}: " if culprit >= 0 else ""
        level = f" (seen by rank {self._rank} at level {at.peer.port})" if at else ""
        self._failure = f"{whose}{reason}{level}"
        told = f", told by {told_by.name}" if told_by else f", at {at.name}" if at else ""
        self._transport.abandon()  # else the words would wait behind them, longer than we do
        for neighbour in self._neighbours:
            if neighbour is not told_by:
                self._send_control(neighbour, protocol.pack_abort(culprit, reason + level))
        self._transport.drain(LAST_WORDS_S)
        self._transport.close()
        raise CollectiveError(
            f"rank {self._rank} gives up collective {self._sequence}{told}: "
            f"{self._failure}; {self._standing(at)}"
        )

    def _standing(self, at: Neighbour | None) -> str:
        """Where this rank stands: the first segment that is missing (from `at`, if given), the bytes received."""
        received = sum(
            (s.stop - s.start) * self._itemsize
            for n in self._neighbours
            for s in n.receives_now[: n.received_now]
        )
        total = sum((s.stop - s.start) * self._itemsize for n in self._neighbours for s in n.receives_now)
        missing = [
            n.receives_now[n.received_now]
            for n in ([at] if at else self._neighbours)
            if n.received_now < len(n.receives_now)
        ]
        where = "nothing more was awaited from it"
        if missing:
            first = min(missing, key=lambda s: (s.stage, s.thread))
            where = f"waiting for thread {first.thread}, stage {first.stage}"
        return f"{where}; {received} of {total} bytes received"
