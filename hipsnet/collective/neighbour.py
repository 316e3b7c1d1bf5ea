# SPDX-License-Identifier: Apache-2.0
"""The executor's state of one neighbour: progress of both sides, credits, and the time of the last arrival."""

from __future__ import annotations

from dataclasses import dataclass, field

from hipsnet.collective.protocol import Ready
from hipsnet.collective.segments import Segment
from hipsnet.transport.interface import Peer


@dataclass(slots=True, eq=False)
class Neighbour:
    """The state of one connection. Counts without `_now` run over the connection's whole life."""

    connection: int
    peer: Peer
    heard_s: float
    spoke_s: float
    warned: bool = False
    closed: str = ""  # why the connection is gone

    staging_key: int = 0  # of the peer's ring for this rank; 0 until it announces one that is large enough
    slots_used: int = 0  # of the peer's ring
    slots_free_until: int = 0  # credit: slots_used may grow to this
    slots_filled: int = 0  # of the local ring
    emptied: int = 0  # all slots before this one may be filled again
    emptied_early: set[int] = field(default_factory=set)
    slot_of: dict[int, int] = field(default_factory=dict)  # by index of the segment that waits in it
    emptied_sent: int = 0

    ready: Ready | None = None  # of the present collective
    next_ready: Ready | None = None  # the peer is one collective ahead
    early: list[int] = field(default_factory=list)  # the segments that it has written for that one

    sends_now: tuple[Segment, ...] = ()
    sent_now: int = 0  # posted
    left_now: int = 0  # of these, sent: their memory may be reused
    receives_now: tuple[Segment, ...] = ()
    received_now: int = 0

    @property
    def name(self) -> str:
        return str(self.peer)

    def fill(self, segment: int) -> None:
        """The peer has written this segment (an index) into the next slot of the local ring."""
        self.slot_of[segment] = self.slots_filled
        self.slots_filled += 1

    def empty(self, segment: int) -> None:
        """This segment has been reduced; slots are given back in the order of the ring."""
        self.emptied_early.add(self.slot_of.pop(segment))
        while self.emptied in self.emptied_early:
            self.emptied_early.remove(self.emptied)
            self.emptied += 1

    def pending_stages(self) -> list[int]:
        """The stages of the first segment not yet sent, and of the first not yet received."""
        stages = []
        if self.left_now < len(self.sends_now):
            stages.append(self.sends_now[self.left_now].stage)
        if self.received_now < len(self.receives_now):
            stages.append(self.receives_now[self.received_now].stage)
        return stages

    def is_awaited(self) -> bool:
        """Whether this collective still needs something from this neighbour."""
        return (
            self.ready is None
            or self.left_now < len(self.sends_now)
            or self.received_now < len(self.receives_now)
        )
