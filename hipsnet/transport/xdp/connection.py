# SPDX-License-Identifier: Apache-2.0
"""One neighbour over AF_XDP: what goes out and what comes in, in the words of the transport interface."""

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
    """Small bytes."""

    payload: bytes


class Connection:
    """A queue pair, and how far both directions are."""

    def __init__(self, index: int, peer: Peer, pair: Pair) -> None:
        self.index = index
        self.peer = peer
        self.pair = pair
        self.arrived = 0  # of the peer's writes and messages
        self._waiting: deque[Write | Message] = deque()
        self._under_way: deque[Write | Message] = deque()
        self._posted = 0
        self._finished = 0

    @property
    def is_idle(self) -> bool:
        """Everything posted has arrived at the peer."""
        return not self._waiting and not self._under_way

    def post(self, work: Write | Message) -> None:
        """Send it, after what was posted before."""
        self._waiting.append(work)
        self.push()

    def abandon(self) -> None:
        """Drop the writes that the pair has not been handed."""
        self._waiting = deque(work for work in self._waiting if isinstance(work, Message))

    def push(self) -> None:
        """Hand the pair what it has room for."""
        while self._waiting and self._take(self._waiting[0]):
            self._under_way.append(self._waiting.popleft())
            self._posted += 1

    def _take(self, work: Write | Message) -> bool:
        if isinstance(work, Message):
            return self.pair.post_send(self._posted, work.payload, len(work.payload))
        return self.pair.post_write(self._posted, *work)

    def take(self, done: Done) -> Iterator[Completion]:
        """What a completion of the pair means. Raises ConnectionLost for one that failed."""
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
        """The peer has `count` of what was posted, counted from the beginning."""
        while self._finished < count and self._under_way:
            work = self._under_way.popleft()
            self._finished += 1
            if isinstance(work, Write):
                yield Completion(Event.SENT, self.index, work.immediate)

    def drop(self) -> None:
        """Nothing more is sent."""
        self._waiting.clear()
        self.pair.abort()
