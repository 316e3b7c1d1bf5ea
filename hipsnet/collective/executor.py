# SPDX-License-Identifier: Apache-2.0
"""Runs a plan: one loop sends the segments that are ready and applies received segments, until all are complete.

Segments that are to be reduced arrive in a ring per neighbour (`hipsnet.collective.staging`): a sender never has
more in flight than fits into it. From 64 KiB on, a chunk is at most a quarter of the plan's largest transfer
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
from hipsnet.collective.progress import Progress
from hipsnet.collective.protocol import (
    DONE,
    Abort,
    Call,
    Credit,
    Heartbeat,
    MalformedMessage,
    Message,
    Position,
    Ready,
)
from hipsnet.collective.segments import Plan, Segment
from hipsnet.collective.staging import SLOTS, Staging
from hipsnet.collective.stall import Stall
from hipsnet.errors import CollectiveError, TransportError
from hipsnet.transport.interface import Completion, Event, Peer, Region, Transport

TICK_S = 0.25
LAST_WORDS_S = 1.0

Reduction = Callable[[NDArray[Any], NDArray[Any]], None]
"""Combines the second array into the first, in place."""

log = logging.getLogger("hipsnet")


@dataclass(frozen=True)
class Timeouts:
    """After how long a silent neighbour is logged, and after how long it is declared failed, in seconds."""

    warn_s: float
    timeout_s: float

    @property
    def heartbeat_s(self) -> float:
        """The interval of heartbeats of a rank that waits."""
        return min(1.0, self.warn_s / 4, self.timeout_s / 4)

    @property
    def stall_s(self) -> float:
        """Maximum time without progress of any rank; longer than `timeout_s`, so that silence is detected first."""
        return 2 * self.timeout_s


class Executor:
    """Owns the connections of one rank. After a collective has failed, all later collectives fail."""

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
        self._stall = Stall(now, timeouts.heartbeat_s / 2)
        self._unfinished = (0, 0)  # segments, neighbours that have not entered: at the last look

    def run(self, plan: Plan, array: NDArray[np.generic], operation: str, reduction: Reduction) -> None:
        """Run the plan in place on `array` (flat, contiguous, `plan.count` elements).

        Raises CollectiveError naming rank, peer, level, stage and bytes done. After any exception, also one that
        is raised by a signal handler or by `reduction`, the array is undefined, the connections are closed, and
        the reason has been sent to the peers.
        """
        if self._failure is not None:
            raise CollectiveError(f"rank {self._rank}: an earlier collective failed: {self._failure}")
        self._sequence += 1
        try:
            self._run(plan, array, Call(plan.count, array.dtype.name, operation), reduction)
        except BaseException as error:
            if self._failure is None:
                text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                self._abort(self._rank, f"its call ended with {text}")
            raise

    def _run(self, plan: Plan, array: NDArray[np.generic], call: Call, reduction: Reduction) -> None:
        self._array, self._itemsize, self._reduction = array, array.itemsize, reduction
        self._progress = Progress(plan, self._apply)
        try:
            if self._staging.make_room(plan.chunk * array.itemsize):
                for neighbour in self._neighbours:  # the peers' rings are replaced, too
                    neighbour.staging_key = 0
            region = self._transport.register(array.view(np.uint8))
        except TransportError as error:
            self._fail(self._rank, str(error), None)
        self._enter(plan, region, call)
        self._loop()
        self._transport.flush()
        self._transport.deregister(region)
        del self._array, self._region  # keep no reference to the caller's memory

    def close(self) -> None:
        """Send the queued messages, then close the connections."""
        if self._failure is None:
            self._transport.drain(self._timeouts.timeout_s)
            self._transport.close()

    # entering

    def _enter(self, plan: Plan, region: Region, call: Call) -> None:
        self._region, self._call = region, call
        now = monotonic()
        self._stall.progressed(now)
        for neighbour in self._neighbours:
            index = neighbour.connection
            neighbour.sends_now, neighbour.sent_now, neighbour.left_now = plan.sends[index], 0, 0
            neighbour.receives_now, neighbour.received_now = plan.receives[index], 0
            neighbour.heard_s = now
            neighbour.emptied_sent = neighbour.emptied
            ready = Ready(self._sequence, region.key, self._staging.key(index), neighbour.emptied, call)
            self._send_control(neighbour, ready)
        for neighbour in self._neighbours:
            ready_already, neighbour.ready, neighbour.next_ready = neighbour.next_ready, None, None
            if ready_already is not None:
                self._accept(neighbour, ready_already)
            early, neighbour.early = neighbour.early, []
            for number in early:
                self._arrived(neighbour, number)
            if neighbour.closed:
                self._lost(neighbour)
        self._push_all()

    def _accept(self, neighbour: Neighbour, ready: Ready) -> None:
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
                self._look(now)

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
            self._on_message(neighbour, completion.payload)
        else:
            neighbour.closed = completion.payload.decode()
            if neighbour.is_awaited():
                self._lost(neighbour)

    # messages

    def _on_message(self, neighbour: Neighbour, raw: bytes) -> None:
        try:
            message: Message = protocol.unpack(raw)
        except MalformedMessage as error:
            self._fail(neighbour.peer.rank, f"it sent a malformed control message: {error}", neighbour)
        match message:
            case Ready():
                self._on_ready(neighbour, message)
            case Credit(emptied):
                self._on_credit(neighbour, emptied)
            case Heartbeat():
                self._on_heartbeat(neighbour, message)
            case Abort(culprit, reason):
                self._fail(culprit, reason, None, reported_by=neighbour)

    def _on_ready(self, neighbour: Neighbour, ready: Ready) -> None:
        """The neighbour has entered this collective, or the next one when it has sent all of this one."""
        self._on_credit(neighbour, ready.emptied)
        if neighbour.ready is None:
            self._accept(neighbour, ready)
        elif ready.sequence != self._sequence + 1 or neighbour.next_ready is not None:
            self._fail(
                neighbour.peer.rank,
                f"it entered collective {ready.sequence} out of turn, during {self._sequence}",
                neighbour,
            )
        elif neighbour.received_now < len(neighbour.receives_now):
            self._fail_of_loss(neighbour, f"it entered collective {ready.sequence}")
        else:
            neighbour.next_ready = ready

    def _on_credit(self, neighbour: Neighbour, emptied: int) -> None:
        if not neighbour.slots_free_until <= emptied + SLOTS <= neighbour.slots_used + SLOTS:
            self._fail(
                neighbour.peer.rank,
                f"it has emptied {emptied} staging slots, of {neighbour.slots_used} that were filled, after it "
                f"had emptied {neighbour.slots_free_until - SLOTS}",
                neighbour,
            )
        neighbour.slots_free_until = emptied + SLOTS

    def _on_heartbeat(self, neighbour: Neighbour, heartbeat: Heartbeat) -> None:
        """Compare the neighbour's count of segments with the segments received, and record its progress report."""
        if neighbour.ready is None:
            expected, arrived = self._sequence - 1, heartbeat.posted  # it has not entered this collective yet
        elif neighbour.next_ready is None:
            expected, arrived = self._sequence, neighbour.received_now
        else:
            expected, arrived = self._sequence + 1, len(neighbour.early)
        if heartbeat.sequence != expected:
            self._fail_of_loss(neighbour, f"it is in collective {heartbeat.sequence} without a READY")
        if heartbeat.posted != arrived:
            self._fail_of_loss(neighbour, f"it has sent {heartbeat.posted} segments, and {arrived} arrived")
        age_s = heartbeat.stalled_ms / 1000
        self._stall.heard(monotonic(), age_s, heartbeat.behind, self._position())

    # segments

    def _arrived(self, neighbour: Neighbour, number: int) -> None:
        if number != neighbour.received_now or number >= len(neighbour.receives_now):
            self._fail_of_loss(neighbour, f"it wrote segment {number} out of turn")
        segment = neighbour.receives_now[number]
        neighbour.received_now += 1
        if segment.reduces:
            neighbour.fill(segment.index)
        self._progress.arrived(segment)

    def _apply(self, segment: Segment) -> None:
        """Combine a staged segment with the array; a copied segment is already in place."""
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
        if neighbour.emptied - neighbour.emptied_sent >= SLOTS // 2 and neighbour.received_now < len(
            neighbour.receives_now
        ):
            neighbour.emptied_sent = neighbour.emptied
            self._send_control(neighbour, Credit(neighbour.emptied))

    def _push_all(self) -> None:
        for neighbour in self._neighbours:
            self._push(neighbour)

    def _push(self, neighbour: Neighbour) -> None:
        """Post, in order, the segments without open dependencies that have a destination."""
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
        """(key, offset) of the peer's memory for this segment; None while it has no free slot."""
        if not segment.reduces:
            return (neighbour.ready.key, segment.start * self._itemsize) if neighbour.ready else None
        if not neighbour.staging_key or neighbour.slots_used >= neighbour.slots_free_until:
            return None
        offset = self._staging.offset(neighbour.slots_used)
        neighbour.slots_used += 1
        return neighbour.staging_key, offset

    def _send_control(self, neighbour: Neighbour, message: Message) -> None:
        if not neighbour.closed:
            self._transport.post_message(neighbour.connection, protocol.pack(message))

    # failures

    def _look(self, now_s: float) -> None:
        """Send heartbeats; fail for a neighbour that is silent, then for a lack of progress everywhere."""
        unfinished = (self._progress.left, sum(n.ready is None for n in self._neighbours))
        if unfinished != self._unfinished:
            self._unfinished = unfinished
            self._stall.progressed(now_s)
        for neighbour in self._neighbours:
            if not neighbour.closed:
                self._send_heartbeat(neighbour, now_s)
                self._look_for_silence(neighbour, now_s)
        stalled_s = self._stall.age_s(now_s)
        if stalled_s >= self._timeouts.stall_s:
            behind = self._stall.behind(self._position())
            where = f"stage {behind.stage}" if behind.stage != DONE else "which it has finished"
            self._fail(
                behind.rank,
                f"no rank has made progress for {stalled_s:.1f} s, and rank {behind.rank} is furthest behind, "
                f"in collective {behind.sequence}, {where}",
                None,
            )

    def _send_heartbeat(self, neighbour: Neighbour, now_s: float) -> None:
        if now_s - neighbour.spoke_s < self._timeouts.heartbeat_s:
            return
        neighbour.spoke_s = now_s
        stalled_ms = int(self._stall.age_s(now_s) * 1000)
        behind = self._stall.behind(self._position())
        self._send_control(neighbour, Heartbeat(self._sequence, neighbour.sent_now, stalled_ms, behind))

    def _look_for_silence(self, neighbour: Neighbour, now_s: float) -> None:
        silent_s = now_s - neighbour.heard_s
        if not neighbour.is_awaited():
            return
        if silent_s >= self._timeouts.timeout_s:
            self._fail(neighbour.peer.rank, f"it has been silent for {silent_s:.1f} s", neighbour)
        if silent_s >= self._timeouts.warn_s and not neighbour.warned:
            log.warning("rank %d: %s is silent for %.1f s", self._rank, neighbour.name, silent_s)
        neighbour.warned = silent_s >= self._timeouts.warn_s

    def _position(self) -> Position:
        """This rank's position: the first stage with a segment that is not yet sent or not yet received."""
        stages = [stage for n in self._neighbours for stage in n.pending_stages()]
        return Position(self._sequence, min(stages, default=DONE), self._rank)

    def _lost(self, neighbour: Neighbour) -> None:
        self._fail(neighbour.peer.rank, neighbour.closed, neighbour)

    def _fail_of_loss(self, neighbour: Neighbour, what: str) -> NoReturn:
        """Messages or writes of this neighbour are missing, or there are too many of them."""
        self._fail(
            neighbour.peer.rank,
            f"{what}, with {neighbour.received_now} of {len(neighbour.receives_now)} segments "
            f"of collective {self._sequence} here: messages were lost, or it does not follow the protocol",
            neighbour,
        )

    def _fail(
        self, culprit: int, reason: str, at: Neighbour | None, reported_by: Neighbour | None = None
    ) -> NoReturn:
        """Abort the collective on all ranks, and raise."""
        level = f" (seen by rank {self._rank} at level {at.peer.port})" if at else ""
        where = f", reported by {reported_by.name}" if reported_by else f", at {at.name}" if at else ""
        self._abort(culprit, reason + level, reported_by)
        raise CollectiveError(
            f"rank {self._rank}: collective {self._sequence} failed{where}: "
            f"{self._failure}; {self._standing(at)}"
        )

    def _abort(self, culprit: int, reason: str, reported_by: Neighbour | None = None) -> None:
        """Send the reason to all neighbours (but the one it came from), and close the connections for good."""
        self._failure = f"rank {culprit}: {reason}" if culprit >= 0 else reason
        try:
            self._transport.abandon()  # else the ABORT would be queued behind writes and miss its deadline
            for neighbour in self._neighbours:
                if neighbour is not reported_by:
                    self._send_control(neighbour, Abort(culprit, reason))
            self._transport.drain(LAST_WORDS_S)
        finally:
            self._transport.close()

    def _standing(self, at: Neighbour | None) -> str:
        """This rank's progress: the first missing segment (from `at`, if given) and the bytes received."""
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
