# SPDX-License-Identifier: Apache-2.0
"""What may be posted when: credits for the peer's receives, space in the send queue, and signalled sends.

Every write and every message consumes one receive of the peer, which keeps `WINDOW` of them posted. Each message
carries the number of receives that its sender has posted again since the connection began; if no message is due,
a credit message does, as soon as half a window is owed. A credit message consumes a receive, but no credit: there
is half a window between two of them, so at most `CREDITS_UNDER_WAY` can wait at the peer. That many receives are
posted in addition, so a receive is always there (no RNR), however fast or slow either side is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

WINDOW = 64
CREDITS_UNDER_WAY = 2
RECEIVES = WINDOW + CREDITS_UNDER_WAY
SENDS = 128
"""Places in the send queue: a window that is under way, and one whose acknowledgements are."""

PROBES = 1
"""Places in the send queue for probes, which need neither credit nor a receive of the peer."""

SIGNAL_EVERY = 16


class Write(NamedTuple):
    """region `key`[offset:offset + length] to the peer's region `remote_key`."""

    key: int
    offset: int
    length: int
    remote_key: int
    remote_offset: int
    immediate: int


class Message(NamedTuple):
    """A short payload of one of the transport's kinds."""

    kind: int
    payload: bytes


CREDIT = Message(0, b"")


@dataclass(frozen=True, slots=True)
class Posting:
    """The `number`-th piece of work of a connection, to be posted now."""

    number: int
    work: Write | Message
    signalled: bool


class Outgoing:
    """The sending side of one connection."""

    def __init__(self) -> None:
        self.waiting: deque[Write | Message] = deque()
        self._under_way: deque[tuple[int, int | None]] = deque()  # number, immediate of a write
        self._posted = 0
        self._paid = 0  # pieces posted that use up credit
        self._granted = WINDOW
        self._unsignalled = 0

    @property
    def idle(self) -> bool:
        return not self.waiting and not self._under_way

    @property
    def is_under_way(self) -> bool:
        """Something is posted and not yet known to have arrived."""
        return bool(self._under_way)

    def grant(self, posted_again: int) -> None:
        """The peer has posted this many receives again since the beginning."""
        self._granted = WINDOW + posted_again

    def take(self) -> list[Posting]:
        """What may be posted now, in order. The last of it is signalled, and every n-th before."""
        taken: list[Write | Message] = []
        while self.waiting and len(self._under_way) + len(taken) < SENDS:
            if self.waiting[0] is not CREDIT:
                if self._paid == self._granted:
                    break
                self._paid += 1
            taken.append(self.waiting.popleft())
        return [self._posting(work, last=i == len(taken) - 1) for i, work in enumerate(taken)]

    def abandon(self) -> None:
        """Drop the writes that have not been posted."""
        self.waiting = deque(work for work in self.waiting if isinstance(work, Message))

    def finished(self, count: int) -> Iterator[int]:
        """All pieces before number `count` have arrived: yields the immediates of the writes among them."""
        while self._under_way and self._under_way[0][0] < count:
            immediate = self._under_way.popleft()[1]
            if immediate is not None:
                yield immediate

    def _posting(self, work: Write | Message, last: bool) -> Posting:
        self._unsignalled += 1
        signalled = last or self._unsignalled == SIGNAL_EVERY
        if signalled:
            self._unsignalled = 0
        number = self._posted
        self._posted += 1
        self._under_way.append((number, work.immediate if isinstance(work, Write) else None))
        return Posting(number, work, signalled)


class Incoming:
    """The receiving side of one connection."""

    def __init__(self) -> None:
        self.arrived = 0  # all pieces: what the peer counts by number
        self._posted_again = 0
        self._credited = 0

    def took(self, paid: bool) -> None:
        """A piece has arrived, and its receive is posted again; `paid`: it was no credit."""
        self.arrived += 1
        self._posted_again += paid

    def owes_credit(self) -> bool:
        return self._posted_again - self._credited >= WINDOW // 2

    def take_credit(self) -> int:
        """Return the credit to send with the next message, and record it as sent."""
        self._credited = self._posted_again
        return self._credited
