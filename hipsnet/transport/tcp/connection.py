# SPDX-License-Identifier: Apache-2.0
"""One neighbour over TCP: the frames that wait to go out, and the frame that is coming in."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice

from hipsnet.transport.interface import MESSAGE_LIMIT, Completion, ConnectionLost, Event
from hipsnet.transport.tcp.frame import HEADER, MESSAGE, WRITE, Frame

READ_AHEAD_BYTES = 4096
FRAMES_PER_CALL = 16
# Below this, waking up for what is there costs less than the delay of waiting for more.
LOW_WATER_BYTES = 64 << 10

CLOSED = "it closed the connection"
_TCP_CLOSE = bytes([7])  # the first byte of tcp_info (linux/tcp.h): the state (net/tcp_states.h)

assert HEADER.size + MESSAGE_LIMIT <= READ_AHEAD_BYTES


class Connection:
    """A socket that does not block, with what is under way in both directions."""

    def __init__(
        self,
        index: int,
        sock: socket.socket,
        regions: Mapping[int, memoryview],
        completions: list[Completion],
    ) -> None:
        """The peer may write into `regions` (by key); what happens is added to `completions`."""
        self.index = index
        self.socket = sock
        self.is_full = False  # the socket; it becomes writable later
        self.outgoing: deque[Frame] = deque()
        self._regions = regions
        self._completions = completions
        self._ahead = memoryview(bytearray(READ_AHEAD_BYTES))
        self._ahead_length = 0
        self._target: memoryview | None = None  # the rest of the write that is coming in
        self._target_key = 0
        self._immediate = 0
        self._is_torn = False  # a send was interrupted before it was known how much the kernel has taken
        self._low_water = 1

    @property
    def is_open(self) -> bool:
        return self.socket.fileno() >= 0

    @property
    def unacknowledged(self) -> int:
        """Bytes that the peer's kernel has not acknowledged yet and still may (SIOCOUTQ, which is TIOCOUTQ)."""
        state = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        if state == _TCP_CLOSE:  # a reset leaves the count as it was
            return 0
        return int(struct.unpack("i", fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4)))[0])

    def send(self) -> None:
        """Hand the kernel as much as it takes. Raises ConnectionLost at the end, after its last data."""
        outgoing = self.outgoing
        self.is_full = False
        if self._is_torn:  # another byte could land in the middle of a write, and be taken for its payload
            raise ConnectionLost("a send was interrupted")
        while outgoing and not self.is_full:
            pieces = [piece for frame in islice(outgoing, FRAMES_PER_CALL) for piece in frame.rest]
            self._is_torn = True
            try:
                sent = self.socket.sendmsg(pieces, (), socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self.is_full = True
            except OSError as error:
                self._is_torn = False
                self._read_out()
                raise _end(error) from error
            else:
                self._sent(sent)
            self._is_torn = False

    def abandon(self) -> None:
        """Drop the writes that have not begun to leave."""
        self.outgoing = deque(frame for frame in self.outgoing if not frame.is_untouched_write)

    def receive(self) -> bool:
        """Read the rest of the incoming write together with what comes behind it, in one call; False if none.

        Raises ConnectionLost at the end.
        """
        target = self._target
        if target is not None and self._target_key not in self._regions:
            raise ConnectionLost(
                f"it writes into region {self._target_key}, which is not registered any more"
            )
        ahead = self._ahead[self._ahead_length :]
        try:
            received = self.socket.recvmsg_into([ahead] if target is None else [target, ahead])[0]
        except BlockingIOError:
            return False
        except OSError as error:
            raise _end(error) from error
        if not received:
            raise ConnectionLost(CLOSED)
        if target is not None:
            received -= self._fill(target, received)
        self._ahead_length += received
        if self._ahead_length >= HEADER.size:
            self._parse()
        self._set_low_water()
        return True

    def _sent(self, size: int) -> None:
        """Take `size` bytes off the queue; where a frame is left half sent the socket is full."""
        outgoing = self.outgoing
        while outgoing:
            frame = outgoing[0]
            rest = frame.rest
            while rest and size >= len(rest[0]):
                size -= len(rest.pop(0))
            if rest:
                if size:
                    rest[0] = rest[0][size:]
                    self.is_full = True
                return
            outgoing.popleft()
            if frame.is_write:
                self._completions.append(Completion(Event.SENT, self.index, frame.immediate))

    def _read_out(self) -> None:
        """Deliver what the peer sent before it closed: it may contain the ABORT that names the culprit.

        After a reset Linux keeps what has been received, and nothing follows.
        """
        with suppress(ConnectionLost):
            while self.receive():
                pass

    def _fill(self, target: memoryview, received: int) -> int:
        """How many of these bytes belong to the write that is coming in."""
        taken = min(received, len(target))
        if taken < len(target):
            self._target = target[taken:]
        else:
            self._target = None
            self._completions.append(Completion(Event.WRITTEN, self.index, self._immediate))
        return taken

    def _parse(self) -> None:
        """Deliver the frames in the read-ahead buffer; a write that goes on beyond it becomes the target."""
        ahead, position, end = self._ahead, 0, self._ahead_length
        while end - position >= HEADER.size:
            kind, key, length, immediate, offset = HEADER.unpack_from(ahead, position)
            body = position + HEADER.size
            if kind == MESSAGE and length <= MESSAGE_LIMIT:
                if end - body < length:
                    break
                position = body + length
                payload = bytes(ahead[body:position])
                self._completions.append(Completion(Event.MESSAGE, self.index, 0, payload))
                continue
            region = self._regions.get(key)
            if kind != WRITE or region is None or offset + length > len(region):
                raise ConnectionLost(
                    f"it wrote {length} bytes at {offset} of region {key}, which is not there"
                )
            there = min(length, end - body)
            region[offset : offset + there] = ahead[body : body + there]
            position = body + there
            if there < length:
                self._target = region[offset + there : offset + length]
                self._target_key, self._immediate = key, immediate
            else:
                self._completions.append(Completion(Event.WRITTEN, self.index, immediate))
        left = end - position
        if left:
            ahead[:left] = bytes(ahead[position:end])
        self._ahead_length = left

    def _set_low_water(self) -> None:
        """Wake up once for a large rest, not for each segment of it."""
        target = self._target
        low_water = len(target) if target is not None and len(target) > LOW_WATER_BYTES else 1
        if low_water != self._low_water:
            self._low_water = low_water
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)


def _end(error: OSError) -> ConnectionLost:
    if isinstance(error, BrokenPipeError):
        return ConnectionLost(CLOSED)
    return ConnectionLost(error.strerror or str(error))
