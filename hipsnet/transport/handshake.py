# SPDX-License-Identifier: Apache-2.0
"""Connecting neighbours over TCP: the lower rank calls, the higher one listens, on port addresses only.

Anyone who reaches a port address may connect, so a listener trusts nothing before the greeting (greeting.py):
connections from addresses that no awaited peer has are closed at once, the others have GREETING_S to finish, and
at most HALF_OPEN of them may be unfinished. A stranger gets no answer beyond a nonce. A member of the job that
runs something else is an error on both sides.
"""

from __future__ import annotations

import errno
import resource
import secrets
import selectors
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic

from hipsnet.errors import TransportError
from hipsnet.transport.greeting import (
    GREETING_BYTES,
    HELLO,
    NONCE_BYTES,
    PROTOCOL_VERSION,
    End,
    Greeting,
    Role,
    Session,
    pack_hello,
    unpack_hello,
)
from hipsnet.transport.interface import Peer

RETRY_S = 0.02
GREETING_S = 10.0
HALF_OPEN = 64
"""Accepted connections whose greeting is not complete; a further one replaces the oldest."""

RETRIED = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.ECONNRESET}
EXHAUSTED = {errno.EMFILE, errno.ENFILE}


def connect_all(
    greeting: Greeting, peers: Sequence[Peer], tcp_port: int, timeout_s: float
) -> list[socket.socket]:
    """One connected socket per peer, in their order. Raises TransportError naming the peers that are missing."""
    with enough_descriptors(), _Meeting(greeting, peers, tcp_port) as meeting:
        return meeting.hold(timeout_s)


@contextmanager
def enough_descriptors() -> Iterator[None]:
    """Turn the exhaustion of file descriptors into a TransportError."""
    try:
        yield
    except OSError as error:
        if error.errno not in EXHAUSTED:
            raise
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        raise TransportError(
            f"no file descriptor is left for the connections to the neighbours: {error.strerror} "
            f"(RLIMIT_NOFILE is {limit}); raise it with `ulimit -n`"
        ) from error


@dataclass(eq=False)
class _HalfOpen:
    """A connection with an incomplete greeting; `peer` is None until the caller has sent its identity."""

    sock: socket.socket
    deadline_s: float
    peer: Peer | None = None
    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(NONCE_BYTES))
    session: Session | None = None  # once the other's hello is here
    received: bytes = b""

    @property
    def role(self) -> Role:
        """The role of the other end."""
        return Role.CALLER if self.peer is None else Role.LISTENER

    def read(self) -> bool:
        """Read what is missing of the present message, and no byte more; True when it is complete.

        Raises ConnectionError at the end of the stream.
        """
        size = GREETING_BYTES if self.session else HELLO.size
        try:
            more = self.sock.recv(size - len(self.received))
        except BlockingIOError:
            return False
        if not more:
            raise ConnectionResetError(errno.ECONNRESET, "it closed the connection")
        self.received += more
        return len(self.received) == size

    def begin_session(self, nonce: bytes) -> None:
        """The other end's nonce is known."""
        mine = _end(self.sock.getsockname(), self.nonce)
        other = _end(self.sock.getpeername(), nonce)
        self.session = Session(other, mine) if self.role == Role.CALLER else Session(mine, other)


def _end(name: tuple[str, int], nonce: bytes) -> End:
    address, tcp_port = name
    return End(address, tcp_port, nonce)


class _Meeting:
    """The sockets that are on their way to being connections."""

    def __init__(self, greeting: Greeting, peers: Sequence[Peer], tcp_port: int) -> None:
        self._greeting = greeting
        self._peers = peers
        self._tcp_port = tcp_port
        self._selector = selectors.DefaultSelector()
        self._listeners: list[socket.socket] = []
        self._half_open: dict[socket.socket, _HalfOpen] = {}  # the oldest first
        self._connected: dict[Peer, socket.socket] = {}
        self._retries: list[tuple[float, Peer]] = []
        self._last_error: dict[Peer, str] = {}

    def __enter__(self) -> _Meeting:
        return self

    def __exit__(self, *failure: object) -> None:
        self._selector.close()
        for sock in [*self._listeners, *self._half_open]:
            sock.close()
        if failure[0] is not None:
            for sock in self._connected.values():
                sock.close()

    def hold(self, timeout_s: float) -> list[socket.socket]:
        deadline = monotonic() + timeout_s
        callers = {peer.local_address for peer in self._peers if peer.rank < self._greeting.rank}
        for address in sorted(callers):
            self._listen(address)
        self._retries = [(0.0, peer) for peer in self._peers if peer.rank > self._greeting.rank]
        while len(self._connected) < len(self._peers):
            now = monotonic()
            if now > deadline:
                raise TransportError(self._missing(timeout_s))
            self._expire(now)
            due = [peer for at, peer in self._retries if at <= now]
            self._retries = [(at, peer) for at, peer in self._retries if at > now]
            for peer in due:
                self._call(peer)
            for key, events in self._selector.select(RETRY_S):
                assert isinstance(key.fileobj, socket.socket)
                self._serve(key.fileobj, events)
        return [self._connected[peer] for peer in self._peers]

    def _serve(self, sock: socket.socket, events: int) -> None:
        half = self._half_open.get(sock)
        if half is None:
            if sock in self._listeners:  # else it was dropped a moment ago
                self._accept(sock)
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._on_called(half)
            elif half.read():
                self._on_message(half)
        except PermissionError:
            self._on_stranger(half)
        except OSError as error:
            if error.errno in EXHAUSTED:
                raise
            self._give_up(half, error.errno or errno.ECONNRESET)

    # listening

    def _listen(self, address: str) -> None:
        listener = socket.socket()
        self._listeners.append(listener)
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, self._tcp_port))
        except OSError as error:
            raise TransportError(
                f"rank {self._greeting.rank} cannot listen on {address}:{self._tcp_port}: {error.strerror}; "
                "is the fabric provisioned, and does no other job use this port (HIPSNET_PORT)?"
            ) from error
        listener.listen(HALF_OPEN)
        self._selector.register(listener, selectors.EVENT_READ)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, (source, _) = listener.accept()
        except OSError as error:
            if error.errno in EXHAUSTED and not self._drop_oldest_accepted():
                raise
            return  # the caller has gone, or there is a descriptor for it now
        here = listener.getsockname()[0]
        callers = {(p.remote_address, p.local_address) for p in self._peers if p.rank < self._greeting.rank}
        if (source, here) not in callers:
            sock.close()
            return
        if sum(half.peer is None for half in self._half_open.values()) >= HALF_OPEN:
            self._drop_oldest_accepted()
        self._open(sock, None, selectors.EVENT_READ)

    def _drop_oldest_accepted(self) -> bool:
        for half in self._half_open.values():
            if half.peer is None:
                self._drop(half)
                return True
        return False

    # calling

    def _call(self, peer: Peer) -> None:
        sock = socket.socket()
        half = self._open(sock, peer, selectors.EVENT_WRITE)
        try:
            sock.bind((peer.local_address, 0))
        except OSError as error:
            raise TransportError(
                f"rank {self._greeting.rank} cannot use its address {peer.local_address}: {error.strerror}; "
                "is the fabric provisioned?"
            ) from error
        code = sock.connect_ex((peer.remote_address, self._tcp_port))
        if code not in (0, errno.EINPROGRESS):
            self._give_up(half, code)

    def _on_called(self, half: _HalfOpen) -> None:
        code = half.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._give_up(half, code)
            return
        half.sock.sendall(pack_hello(half.nonce))
        self._selector.modify(half.sock, selectors.EVENT_READ)

    # greeting

    def _on_message(self, half: _HalfOpen) -> None:
        raw, half.received = half.received, b""
        if half.session is None:
            self._on_hello(half, raw)
        elif half.peer is None:
            self._on_caller(half, half.session, raw)
        else:
            self._greeting.unpack(raw, Role.LISTENER, half.session)
            self._finish(half, half.peer)

    def _on_hello(self, half: _HalfOpen, raw: bytes) -> None:
        version, nonce = unpack_hello(raw)
        if version != PROTOCOL_VERSION:
            self._on_other_version(half, version)
            return
        half.begin_session(nonce)
        assert half.session is not None
        if half.peer is None:
            half.sock.sendall(pack_hello(half.nonce))
        else:
            half.sock.sendall(self._greeting.pack(Role.CALLER, half.peer, half.session))

    def _on_caller(self, half: _HalfOpen, session: Session, raw: bytes) -> None:
        try:
            sender = self._greeting.unpack(raw, Role.CALLER, session)
        except TransportError:
            stand_in = Peer(0, 0, "", 0, "")  # let the caller see the difference, too
            half.sock.sendall(self._greeting.pack(Role.LISTENER, stand_in, session))
            raise
        for peer in self._peers:
            ends = peer.rank, peer.remote_port, self._greeting.rank, peer.port
            if ends == (sender.rank, sender.port, sender.to_rank, sender.to_port):
                is_awaited = peer not in self._connected and peer.remote_address == session.caller.address
                if is_awaited and peer.local_address == session.listener.address:
                    half.sock.sendall(self._greeting.pack(Role.LISTENER, peer, session))
                    self._finish(half, peer)
                    return
        self._drop(half)

    def _on_other_version(self, half: _HalfOpen, version: int) -> None:
        """Nothing is proved yet: a caller may be a stranger, but what listens at a peer's address is the peer."""
        words = (
            f"it speaks version {version} of the protocol, and rank {self._greeting.rank} {PROTOCOL_VERSION}"
        )
        if half.peer is not None:
            raise TransportError(f"{half.peer}: {words}; start every rank with the same hipsnet")
        source, _ = half.sock.getpeername()
        for peer in self._peers:
            if peer.remote_address == source:
                self._last_error[peer] = words
        with suppress(OSError):
            half.sock.sendall(pack_hello(half.nonce))
        self._drop(half)

    def _on_stranger(self, half: _HalfOpen) -> None:
        if half.peer is not None:
            raise TransportError(
                f"rank {self._greeting.rank}: {half.peer} does not know this job's token (HIPSNET_TOKEN)"
            ) from None
        self._drop(half)

    # ends

    def _open(self, sock: socket.socket, peer: Peer | None, events: int) -> _HalfOpen:
        sock.setblocking(False)
        half = _HalfOpen(sock, monotonic() + GREETING_S, peer)
        self._half_open[sock] = half
        self._selector.register(sock, events)
        return half

    def _finish(self, half: _HalfOpen, peer: Peer) -> None:
        self._selector.unregister(half.sock)
        del self._half_open[half.sock]
        self._connected[peer] = half.sock

    def _expire(self, now_s: float) -> None:
        for half in [half for half in self._half_open.values() if half.deadline_s <= now_s]:
            self._give_up(half, errno.ETIMEDOUT)

    def _give_up(self, half: _HalfOpen, code: int) -> None:
        """Drop the connection; call the peer again if it was called, and may come yet."""
        self._drop(half)
        if half.peer is None:
            return
        if code not in RETRIED | {errno.EPIPE}:
            raise TransportError(
                f"rank {self._greeting.rank} cannot reach {half.peer}: {errno.errorcode[code]}"
            )
        self._last_error[half.peer] = errno.errorcode[code]
        self._retries.append((monotonic() + RETRY_S, half.peer))

    def _drop(self, half: _HalfOpen) -> None:
        del self._half_open[half.sock]
        self._selector.unregister(half.sock)
        half.sock.close()

    def _missing(self, timeout_s: float) -> str:
        missing = [
            f"{peer}" + (f" [{self._last_error[peer]}]" if peer in self._last_error else "")
            for peer in self._peers
            if peer not in self._connected
        ]
        return (
            f"rank {self._greeting.rank} waited {timeout_s:g} s for {', '.join(missing)}; "
            "did every rank start, and are the cables up (hipsnet ping)?"
        )
