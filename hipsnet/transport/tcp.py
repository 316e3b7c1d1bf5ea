"""Transport over kernel TCP sockets, each bound to its own port's address."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import termios
from collections import deque
from collections.abc import Sequence
from itertools import islice
from time import monotonic, sleep

import numpy as np
from numpy.typing import NDArray

from hipsnet.errors import TransportError
from hipsnet.transport.handshake import Greeting, connect_all
from hipsnet.transport.interface import MESSAGE_LIMIT, Completion, Event, Peer, Region

# kind (0 write, 1 message), key, length, immediate, offset: what an RDMA WRITE WITH IMMEDIATE carries.
HEADER = struct.Struct("<B3xIIIQ")
WRITE, MESSAGE = 0, 1

READ_AHEAD_BYTES = 4096
FRAMES_PER_CALL = 16
# Below this, waking up for what is there costs less than the delay of waiting for more.
LOW_WATER_BYTES = 64 << 10
TCP_CLOSE = bytes([7])  # the first byte of tcp_info (linux/tcp.h): the state (net/tcp_states.h)
CLOSED = "it closed the connection"

assert HEADER.size + MESSAGE_LIMIT <= READ_AHEAD_BYTES


class _Connection:
    """One socket with the frames that wait to go out and the frame that is coming in."""

    __slots__ = (
        "ahead",
        "ahead_length",
        "immediate",
        "index",
        "low_water",
        "outgoing",
        "socket",
        "target",
        "waits",
    )

    def __init__(self, index: int, sock: socket.socket) -> None:
        self.index = index
        self.socket = sock
        self.outgoing: deque[_Frame] = deque()
        self.waits = False  # for the socket to become writable
        self.ahead = memoryview(bytearray(READ_AHEAD_BYTES))
        self.ahead_length = 0
        self.target: memoryview | None = None  # the rest of the write that is coming in
        self.immediate = 0
        self.low_water = 1


class _Frame:
    """A header with its payload on the way out; `rest` is what the kernel has not taken yet."""

    __slots__ = ("immediate", "is_write", "rest")

    def __init__(self, is_write: bool, immediate: int, rest: list[memoryview]) -> None:
        self.is_write = is_write
        self.immediate = immediate
        self.rest = rest


class TcpTransport:
    """A `Transport` on level-triggered epoll, with write interest only where bytes wait."""

    def __init__(self, greeting: Greeting, tcp_port: int, congestion_control: str = "cubic") -> None:
        self._greeting = greeting
        self._tcp_port = tcp_port
        self._congestion_control = congestion_control
        self._regions: dict[int, memoryview] = {}
        self._next_key = 1
        self._connections: list[_Connection] = []
        self._by_descriptor: dict[int, _Connection] = {}
        self._unstarted: dict[int, _Connection] = {}
        self._completions: list[Completion] = []
        self._epoll = select.epoll()

    def register(self, memory: NDArray[np.uint8]) -> Region:
        region = Region(self._next_key, memory)
        self._next_key += 1
        self._regions[region.key] = memoryview(memory)  # type: ignore[arg-type]
        return region

    def deregister(self, region: Region) -> None:
        del self._regions[region.key]

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        sockets = connect_all(self._greeting, peers, self._tcp_port, timeout_s)
        for index, sock in enumerate(sockets):
            self._tune(sock)
            connection = _Connection(index, sock)
            self._connections.append(connection)
            self._by_descriptor[sock.fileno()] = connection
            self._epoll.register(sock, select.EPOLLIN)

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
        header = HEADER.pack(WRITE, remote_key, length, immediate, remote_offset)
        payload = self._regions[region.key][offset : offset + length]
        self._enqueue(connection, _Frame(True, immediate, [memoryview(header), payload]))

    def post_message(self, connection: int, payload: bytes) -> None:
        if len(payload) > MESSAGE_LIMIT:
            raise TransportError(f"a message carries at most {MESSAGE_LIMIT} bytes, not {len(payload)}")
        frame = HEADER.pack(MESSAGE, 0, len(payload), 0, 0) + payload
        self._enqueue(connection, _Frame(False, 0, [memoryview(frame)]))

    def poll(self, timeout_s: float) -> list[Completion]:
        self._start_posted()
        if self._completions:
            timeout_s = 0
        for descriptor, events in self._epoll.poll(timeout_s):
            connection = self._by_descriptor.get(descriptor)
            if connection is None:
                continue
            if events & select.EPOLLOUT:
                self._send(connection)
            if events & ~select.EPOLLOUT:
                self._receive(connection)
        completions, self._completions = self._completions, []
        return completions

    def drain(self, timeout_s: float) -> None:
        deadline = monotonic() + timeout_s
        self._start_posted()
        # Of a set of their own: one that hung up, or has something to read, would wake us again and again.
        with select.epoll() as senders:
            for connection in self._by_descriptor.values():
                if connection.outgoing:
                    senders.register(connection.socket, select.EPOLLOUT)
            while any(c.outgoing for c in self._by_descriptor.values()) and monotonic() < deadline:
                for descriptor, _ in senders.poll(max(0.0, deadline - monotonic())):
                    connection = self._by_descriptor[descriptor]
                    self._send(connection)
                    if not connection.outgoing and descriptor in self._by_descriptor:
                        senders.unregister(descriptor)
        # Closing a socket with something unread resets the connection and throws away what is under way.
        while any(_unacknowledged(c.socket) for c in self._by_descriptor.values()) and monotonic() < deadline:
            sleep(0.001)

    def close(self) -> None:
        for connection in self._connections:
            connection.socket.close()
        self._by_descriptor.clear()
        self._epoll.close()

    def _tune(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._congestion_control.encode())
        except OSError as error:
            raise TransportError(
                f"congestion control {self._congestion_control!r} cannot be used: {error.strerror}; "
                "net.ipv4.tcp_available_congestion_control lists what this kernel has"
            ) from error

    def _enqueue(self, index: int, frame: _Frame) -> None:
        connection = self._connections[index]
        connection.outgoing.append(frame)
        self._unstarted[index] = connection

    def _start_posted(self) -> None:
        for connection in self._unstarted.values():
            if not connection.waits:
                self._send(connection)
        self._unstarted.clear()

    def _send(self, connection: _Connection) -> None:
        outgoing = connection.outgoing
        while outgoing:
            pieces = [piece for frame in islice(outgoing, FRAMES_PER_CALL) for piece in frame.rest]
            try:
                sent = connection.socket.sendmsg(pieces, (), socket.MSG_NOSIGNAL)
            except BlockingIOError:
                break
            except OSError as error:
                self._read_out(connection, error)
                return
            if not self._consume(connection, sent):
                break
        self._wait_writable(connection, bool(outgoing))

    def _consume(self, connection: _Connection, sent: int) -> bool:
        """Take `sent` bytes off the queue; False where a frame is left half sent: the socket is full."""
        outgoing = connection.outgoing
        while outgoing:
            frame = outgoing[0]
            rest = frame.rest
            while rest and sent >= len(rest[0]):
                sent -= len(rest.pop(0))
            if rest:
                if sent:
                    rest[0] = rest[0][sent:]
                    return False
                return True
            outgoing.popleft()
            if frame.is_write:
                self._completions.append(Completion(Event.SENT, connection.index, frame.immediate))
        return True

    def _wait_writable(self, connection: _Connection, waits: bool) -> None:
        if waits != connection.waits:
            connection.waits = waits
            self._epoll.modify(connection.socket, select.EPOLLIN | (select.EPOLLOUT if waits else 0))

    def _receive(self, connection: _Connection, at_end: str = CLOSED) -> bool:
        """Read the rest of the incoming write together with what comes behind it, in one call; False if none."""
        target = connection.target
        kept = connection.ahead_length
        buffers = [connection.ahead[kept:]] if target is None else [target, connection.ahead]
        try:
            received = connection.socket.recvmsg_into(buffers)[0]
        except BlockingIOError:
            return False
        except OSError as error:
            self._lost(connection, error.strerror or str(error))
            return False
        if received == 0:
            self._lost(connection, at_end)
            return False
        if target is not None:
            taken = min(received, len(target))
            received -= taken
            if taken < len(target):
                connection.target = target[taken:]
            else:
                connection.target = None
                self._completions.append(Completion(Event.WRITTEN, connection.index, connection.immediate))
        connection.ahead_length = kept + received
        if connection.ahead_length >= HEADER.size:
            self._parse(connection)
        self._set_low_water(connection)
        return True

    def _read_out(self, connection: _Connection, end: OSError) -> None:
        """A send found the peer's end: tell what came before it first, for there the peer may have said why.

        Linux keeps through a reset what has been received, and nothing can come after it.
        """
        why = CLOSED if isinstance(end, BrokenPipeError) else end.strerror or str(end)
        while self._receive(connection, why):
            pass
        self._lost(connection, why)

    def _parse(self, connection: _Connection) -> None:
        """Deliver the frames in the read-ahead buffer; a write that goes on beyond it becomes the target."""
        ahead, position, end = connection.ahead, 0, connection.ahead_length
        while end - position >= HEADER.size:
            kind, key, length, immediate, offset = HEADER.unpack_from(ahead, position)
            body = position + HEADER.size
            if kind == MESSAGE and length <= MESSAGE_LIMIT:
                if end - body < length:
                    break
                payload = bytes(ahead[body : body + length])
                self._completions.append(Completion(Event.MESSAGE, connection.index, 0, payload))
                position = body + length
                continue
            region = self._regions.get(key)
            if kind != WRITE or region is None or offset + length > len(region):
                self._lost(
                    connection, f"it wrote {length} bytes at {offset} of region {key}, which is not there"
                )
                return
            there = min(length, end - body)
            region[offset : offset + there] = ahead[body : body + there]
            position = body + there
            if there < length:
                connection.target = region[offset + there : offset + length]
                connection.immediate = immediate
            else:
                self._completions.append(Completion(Event.WRITTEN, connection.index, immediate))
        left = end - position
        if left:
            ahead[:left] = bytes(ahead[position:end])
        connection.ahead_length = left

    def _set_low_water(self, connection: _Connection) -> None:
        """Wake up once for a large rest, not for each segment of it."""
        target = connection.target
        low_water = len(target) if target is not None and len(target) > LOW_WATER_BYTES else 1
        if low_water != connection.low_water:
            connection.low_water = low_water
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)

    def _lost(self, connection: _Connection, why: str) -> None:
        if self._by_descriptor.pop(connection.socket.fileno(), None) is None:
            return
        self._epoll.unregister(connection.socket)
        connection.socket.close()
        connection.outgoing.clear()
        connection.waits = True  # nothing more is sent
        self._completions.append(Completion(Event.CLOSED, connection.index, 0, why.encode()))


def _unacknowledged(sock: socket.socket) -> int:
    """Bytes that the peer's kernel has not acknowledged yet and still may (SIOCOUTQ, which is TIOCOUTQ)."""
    if (
        sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == TCP_CLOSE
    ):  # a reset leaves the count as it was
        return 0
    return int(struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0])
