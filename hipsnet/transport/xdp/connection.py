# SPDX-License-Identifier: Apache-2.0
"""One neighbour over AF_XDP: translates between a queue pair and the transport interface."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from hipsnet.stack.roce.pair import STATUSES, Done, Kind, Pair
from hipsnet.transport.interface import Completion, ConnectionLost, Event, Peer


class Write(NamedTuple):
    """`length` bytes at `address` into the peer's region `key`."""

    address: Any
    length: int
    remote_offset: int
    key: int
    immediate: int


class Message(NamedTuple):
    """A small message."""

    payload: bytes


class Connection:
    """A queue pair, and the progress of both directions."""

    def __init__(self, index: int, peer: Peer, pair: Pair) -> None:
        self.index = index
        self.peer = peer
        self.pair = pair
        self.arrived = 0  # writes and messages of the peer
        self._waiting: deque[Write | Message] = deque()
        self._under_way: deque[Write | Message] = deque()
        self._posted = 0
        self._finished = 0

    @property
    def is_idle(self) -> bool:
        """Whether the peer has acknowledged everything that was posted."""
        return not self._waiting and not self._under_way

    def post(self, work: Write | Message) -> None:
        """Send a write or message, after those posted before."""
        self._waiting.append(work)
        self.push()

    def abandon(self) -> None:
        """Drop the writes that were not posted to the pair yet."""
        self._waiting = deque(work for work in self._waiting if isinstance(work, Message))

    def push(self) -> None:
        """Post as much to the pair as its queue accepts."""
        while self._waiting and self._take(self._waiting[0]):
            self._under_way.append(self._waiting.popleft())
            self._posted += 1

    def _take(self, work: Write | Message) -> bool:
        if isinstance(work, Message):
            return self.pair.post_send(self._posted, work.payload, len(work.payload))
        return self.pair.post_write(self._posted, *work)

    def take(self, done: Done) -> Iterator[Completion]:
        """Translate a completion of the pair. Raises ConnectionLost if it failed."""
        if done.status:
            raise ConnectionLost(STATUSES[done.status])
        if done.kind == Kind.SENT:
            yield from self.finish(done.id + 1)
            self.push()
            return
        self.arrived += 1
        if done.kind == Kind.WRITTEN:
            yield Completion(Event.WRITTEN, self.index, done.immediate)
        else:
            yield Completion(Event.MESSAGE, self.index, 0, self.pair.received(done.id, done.bytes))
        self.pair.post_receive(done.id)

    def finish(self, count: int) -> Iterator[Completion]:
        """The peer has the first `count` of all pieces that were ever posted."""
        while self._finished < count and self._under_way:
            work = self._under_way.popleft()
            self._finished += 1
            if isinstance(work, Write):
                yield Completion(Event.SENT, self.index, work.immediate)

    def drop(self) -> None:
        """Stop sending for good."""
        self._waiting.clear()
        self.pair.abort()
