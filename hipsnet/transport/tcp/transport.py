# SPDX-License-Identifier: Apache-2.0
"""Transport over kernel TCP sockets, each bound to its own port's address."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from time import monotonic, sleep

import numpy as np
from numpy.typing import NDArray

from hipsnet.errors import TransportError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.handshake import connect_all, enough_descriptors
from hipsnet.transport.interface import MESSAGE_LIMIT, Completion, ConnectionLost, Event, Peer, Region
from hipsnet.transport.options import Options
from hipsnet.transport.tcp import frame
from hipsnet.transport.tcp.connection import Connection

ACKNOWLEDGED_STEP_S = 0.001
MOST_KEYS = 2**32 - 1
"""Keys come again after so many registrations: a header has 32 bits for them."""


class TcpTransport:
    """A `Transport` on level-triggered epoll, with write interest only where bytes wait."""

    def __init__(self, greeting: Greeting, tcp_port: int, congestion_control: str = "cubic") -> None:
        self._greeting = greeting
        self._tcp_port = tcp_port
        self._congestion_control = congestion_control
        self._regions: dict[int, memoryview] = {}
        self._next_key = 1
        self._connections: list[Connection] = []
        self._live: dict[int, Connection] = {}  # by descriptor
        self._unstarted: dict[int, Connection] = {}
        self._completions: list[Completion] = []
        with enough_descriptors():
            self._epoll = select.epoll()

    @classmethod
    def open(cls, greeting: Greeting, options: Options) -> TcpTransport:
        """Return a transport with the options that concern TCP."""
        return cls(greeting, options.tcp_port, options.congestion_control)

    def register(self, memory: NDArray[np.uint8]) -> Region:
        while self._next_key in self._regions:
            self._next_key = self._next_key % MOST_KEYS + 1
        region = Region(self._next_key, memory)
        self._next_key = self._next_key % MOST_KEYS + 1
        self._regions[region.key] = memoryview(memory)  # type: ignore[arg-type]
        return region

    def deregister(self, region: Region) -> None:
        del self._regions[region.key]

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        sockets = connect_all(self._greeting, peers, self._tcp_port, timeout_s)
        for index, sock in enumerate(sockets):
            self._tune(sock)
            connection = Connection(index, sock, self._regions, self._completions)
            self._connections.append(connection)
            self._live[sock.fileno()] = connection
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
        payload = self._regions[region.key][offset : offset + length]
        self._post(connection, frame.write(remote_key, remote_offset, payload, immediate))

    def post_message(self, connection: int, payload: bytes) -> None:
        if len(payload) > MESSAGE_LIMIT:
            raise TransportError(f"a message carries at most {MESSAGE_LIMIT} bytes, not {len(payload)}")
        self._post(connection, frame.message(payload))

    def abandon(self) -> None:
        for connection in self._live.values():
            connection.abandon()

    def poll(self, timeout_s: float) -> list[Completion]:
        self._start_posted()
        if self._completions:
            timeout_s = 0
        for descriptor, events in self._epoll.poll(timeout_s):
            connection = self._live[descriptor]
            if events & select.EPOLLOUT:
                self._send(connection)
            if events & ~select.EPOLLOUT and connection.is_open:
                self._receive(connection)
        completions = self._completions.copy()
        self._completions.clear()
        return completions

    def flush(self) -> None:
        self._start_posted()  # the kernel acknowledges what comes

    def drain(self, timeout_s: float) -> None:
        deadline = monotonic() + timeout_s
        self._start_posted()
        # Of a set of their own: one that hung up, or has something to read, would wake us again and again.
        with select.epoll() as senders:
            for connection in self._live.values():
                if connection.outgoing:
                    senders.register(connection.socket, select.EPOLLOUT)
            while any(c.outgoing for c in self._live.values()) and monotonic() < deadline:
                for descriptor, _ in senders.poll(max(0.0, deadline - monotonic())):
                    connection = self._live[descriptor]
                    self._send(connection)
                    if connection.is_open and not connection.outgoing:
                        senders.unregister(descriptor)
        # Closing a socket with something unread resets the connection and throws away what is under way.
        while any(c.unacknowledged for c in self._live.values()) and monotonic() < deadline:
            sleep(ACKNOWLEDGED_STEP_S)

    def detach(self) -> list[int]:
        """The descriptors of the connected sockets, in the order of `connect`; the caller owns them."""
        descriptors = [connection.socket.detach() for connection in self._connections]
        self.close()
        return descriptors

    def close(self) -> None:
        for connection in self._connections:
            connection.socket.close()
        self._live.clear()
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

    def _post(self, index: int, posted: frame.Frame) -> None:
        connection = self._connections[index]
        if connection.is_open:
            connection.outgoing.append(posted)
            self._unstarted[index] = connection

    def _start_posted(self) -> None:
        for connection in self._unstarted.values():
            if connection.is_open and not connection.is_full:
                self._send(connection)
        self._unstarted.clear()

    def _send(self, connection: Connection) -> None:
        was_full = connection.is_full
        try:
            connection.send()
        except ConnectionLost as lost:
            self._lost(connection, lost)
            return
        if connection.is_full != was_full:
            waits = select.EPOLLOUT if connection.is_full else 0
            self._epoll.modify(connection.socket, select.EPOLLIN | waits)

    def _receive(self, connection: Connection) -> None:
        try:
            connection.receive()
        except ConnectionLost as lost:
            self._lost(connection, lost)

    def _lost(self, connection: Connection, why: ConnectionLost) -> None:
        del self._live[connection.socket.fileno()]
        self._epoll.unregister(connection.socket)
        connection.socket.close()
        connection.outgoing.clear()
        self._completions.append(Completion(Event.CLOSED, connection.index, 0, str(why).encode()))
