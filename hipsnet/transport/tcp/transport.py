# SPDX-License-Identifier: Apache-2.0
"""Transport over kernel TCP sockets, each bound to its own port's address."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from hipsnet.errors import TransportError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.handshake import connect_all
from hipsnet.transport.interface import Peer
from hipsnet.transport.options import Options


class TcpTransport:
    """A `Transport` whose connections are sockets that do not block."""

    def __init__(self, greeting: Greeting, tcp_port: int, congestion_control: str = "cubic") -> None:
        self._greeting = greeting
        self._tcp_port = tcp_port
        self._congestion_control = congestion_control
        self._sockets: list[socket.socket] = []

    @classmethod
    def open(cls, greeting: Greeting, options: Options) -> TcpTransport:
        """Return a transport with the options that concern TCP."""
        return cls(greeting, options.tcp_port, options.congestion_control)

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        self._sockets = connect_all(self._greeting, peers, self._tcp_port, timeout_s)
        try:
            for sock in self._sockets:
                self._tune(sock)
        except BaseException:
            self.close()
            raise

    def detach(self) -> list[int]:
        """The descriptors of the connected sockets, in the order of `connect`; the caller owns them."""
        return [sock.detach() for sock in self._sockets]

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

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
