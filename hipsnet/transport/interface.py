# SPDX-License-Identifier: Apache-2.0
"""The verbs-shaped interface that every transport implements and the executor is written against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Peer:
    """A neighbour: out of my `port` at `local_address`, into its `remote_port` at `remote_address`.

    Both ends describe the same connection, each from its own side.
    """

    rank: int
    port: int
    local_address: str
    remote_port: int
    remote_address: str

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.remote_address}) at level {self.port}"


@dataclass(frozen=True)
class Region:
    """Registered memory: peers write into it by naming `key`."""

    key: int
    memory: NDArray[np.uint8]


class Event(IntEnum):
    """The kind of a completion."""

    SENT = 0  # a posted write has left: its memory may change again
    WRITTEN = 1  # the peer has written into a region of ours
    MESSAGE = 2  # the peer has sent a small message
    CLOSED = 3  # the connection is gone; nothing more will come from it


class Completion(NamedTuple):
    """One event on connection `connection` (an index in the order of `connect`)."""

    event: Event
    connection: int
    immediate: int = 0  # SENT, WRITTEN: the number that came with the write
    payload: bytes = b""  # MESSAGE: its bytes; CLOSED: why, in words


class ConnectionLost(Exception):
    """A connection cannot go on; the text says why. A transport reports it as CLOSED, and never raises it."""


MESSAGE_LIMIT = 2048
"""The longest message, in bytes; bulk data goes through writes."""


class Transport(Protocol):
    """Moves bytes between this rank and its neighbours. Not thread-safe; one thread owns it.

    `connect` comes first. Any number of writes and messages may be posted: what the peer cannot take yet
    is queued here, so a receiver is always ready, and callers need no limit of their own.
    """

    def register(self, memory: NDArray[np.uint8]) -> Region:
        """Make memory (contiguous, writable) a target and a source of writes until `deregister`.

        The same memory again is cheap: a transport may keep it registered as long as the array that owns it
        lives. Raises TransportError if it cannot be registered.
        """

    def deregister(self, region: Region) -> None:
        """Take the region back; later writes to its key are a protocol error of the peer."""

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        """Connect to all peers, in any order of start; raises TransportError naming the missing ones."""

    def post_write(
        self,
        connection: int,
        region: Region,
        offset: int,
        length: int,
        remote_key: int,
        remote_offset: int,
        immediate: int,
    ) -> None:
        """Write region[offset:offset + length] into the peer's region; ends in SENT here and WRITTEN there.

        Writes and messages of one connection arrive in the order in which they were posted.
        """

    def post_message(self, connection: int, payload: bytes) -> None:
        """Send at most MESSAGE_LIMIT bytes; arrives as MESSAGE. The bytes are copied: no SENT follows."""

    def abandon(self) -> None:
        """Drop the writes that have not begun to leave: none of them ends in SENT. Messages are still sent."""

    def poll(self, timeout_s: float) -> list[Completion]:
        """Start what was posted, block until an event or the time-out, and return the completions."""

    def flush(self) -> None:
        """Send posted messages and pending acknowledgements: peers wait for them, and this rank will not poll.

        Does not wait for the peers, and reports nothing: the next `poll` does.
        """

    def drain(self, timeout_s: float) -> None:
        """Send what is still queued, for at most this long; incoming data is not read."""

    def close(self) -> None:
        """Close every connection and listener."""
