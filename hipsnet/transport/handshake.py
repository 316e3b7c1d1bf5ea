# SPDX-License-Identifier: Apache-2.0
"""Connecting neighbours over TCP: who may speak, who they are, and whether both mean the same job.

The lower rank connects, the higher one listens, on the address of the port that the connection belongs to.
Both send a greeting, authenticated by the job's token (HMAC-SHA256; the token itself never travels). A stranger
is disconnected without an answer; a member of the job that runs something else is an error on both sides.
"""

from __future__ import annotations

import errno
import hmac
import selectors
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic

from hipsnet.errors import TransportError
from hipsnet.transport.interface import Peer

PROTOCOL_VERSION = 2
MAGIC = b"HiPS"
CONFIGURATION_BYTES = 256
# magic, version, role (0 connects, 1 listens), rank, world size, own port, the other's port, configuration
BODY = struct.Struct(f"<4sHHIIHH{CONFIGURATION_BYTES}s")
GREETING_BYTES = BODY.size + sha256().digest_size

RETRY_S = 0.02
RETRIED = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.ECONNRESET}


@dataclass(frozen=True)
class Greeting:
    """What this rank says of itself; `configuration` is everything that must be the same on every rank."""

    rank: int
    world_size: int
    configuration: str
    token: str

    def pack(self, role: int, peer: Peer) -> bytes:
        configuration = self.configuration.encode()
        if len(configuration) > CONFIGURATION_BYTES:
            raise TransportError(
                f"the configuration text has {len(configuration)} bytes; {CONFIGURATION_BYTES} fit"
            )
        body = BODY.pack(
            MAGIC,
            PROTOCOL_VERSION,
            role,
            self.rank,
            self.world_size,
            peer.port,
            peer.remote_port,
            configuration,
        )
        return body + self.seal(body)

    def unpack(self, raw: bytes, role: int) -> tuple[int, int, int]:
        """(rank, its port, my port) of the sender; PermissionError for a stranger, TransportError for a misfit."""
        body, seal = raw[: BODY.size], raw[BODY.size :]
        if not hmac.compare_digest(seal, self.seal(body)):
            raise PermissionError
        magic, version, its_role, rank, world_size, its_port, my_port, configuration = BODY.unpack(body)
        if magic != MAGIC or its_role != role:
            raise PermissionError
        for what, mine, its in (
            ("protocol version", PROTOCOL_VERSION, version),
            ("world size", self.world_size, world_size),
            ("configuration", self.configuration, configuration.rstrip(b"\0").decode(errors="replace")),
        ):
            if mine != its:
                raise TransportError(
                    f"rank {self.rank} and rank {rank} do not run the same job: "
                    f"{what} {mine!r} here, {its!r} there; "
                    "start every rank with the same settings and the same hipsnet"
                )
        return rank, its_port, my_port

    def seal(self, body: bytes) -> bytes:
        """What only the members of this job can put under `body`."""
        return hmac.digest(self.token.encode(), body, "sha256")


def connect_all(
    greeting: Greeting, peers: Sequence[Peer], tcp_port: int, timeout_s: float
) -> list[socket.socket]:
    """One connected socket per peer, in their order. Raises TransportError naming the peers that are missing."""
    with _Meeting(greeting, peers, tcp_port) as meeting:
        return meeting.hold(timeout_s)


class _Meeting:
    """The sockets that are on their way to being connections."""

    def __init__(self, greeting: Greeting, peers: Sequence[Peer], tcp_port: int) -> None:
        self._greeting = greeting
        self._peers = peers
        self._tcp_port = tcp_port
        self._selector = selectors.DefaultSelector()
        self._half_open: set[socket.socket] = set()
        self._met: dict[Peer, socket.socket] = {}
        self._retries: list[tuple[float, Peer]] = []
        self._last_error: dict[Peer, str] = {}

    def __enter__(self) -> _Meeting:
        return self

    def __exit__(self, *failure: object) -> None:
        self._selector.close()
        for sock in self._half_open:
            sock.close()
        if failure[0] is not None:
            for sock in self._met.values():
                sock.close()

    def hold(self, timeout_s: float) -> list[socket.socket]:
        deadline = monotonic() + timeout_s
        lower = {peer.local_address for peer in self._peers if peer.rank < self._greeting.rank}
        for address in sorted(lower):
            self._listen(address)
        self._retries = [(0.0, peer) for peer in self._peers if peer.rank > self._greeting.rank]
        while len(self._met) < len(self._peers):
            now = monotonic()
            if now > deadline:
                raise TransportError(self._missing(timeout_s))
            due, self._retries = (
                [peer for at, peer in self._retries if at <= now],
                [(at, peer) for at, peer in self._retries if at > now],
            )
            for peer in due:
                self._call(peer)
            for key, _ in self._selector.select(RETRY_S):
                step: Callable[[socket.socket], None] = key.data
                assert isinstance(key.fileobj, socket.socket)
                step(key.fileobj)
        return [self._met[peer] for peer in self._peers]

    def _listen(self, address: str) -> None:
        listener = self._track(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address, self._tcp_port))
        except OSError as error:
            raise TransportError(
                f"rank {self._greeting.rank} cannot listen on {address}:{self._tcp_port}: {error.strerror}; "
                "is the fabric provisioned, and does no other job use this port (HIPSNET_PORT)?"
            ) from error
        listener.listen(64)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def _accept(self, listener: socket.socket) -> None:
        sock = self._track(listener.accept()[0])
        self._selector.register(sock, selectors.EVENT_READ, self._greeted_by_caller)

    def _greeted_by_caller(self, sock: socket.socket) -> None:
        raw = self._read_greeting(sock)
        if raw is None:
            return
        try:
            rank, its_port, my_port = self._greeting.unpack(raw, role=0)
        except PermissionError:
            self._drop(sock)
            return
        except TransportError:
            self._answer_misfit(sock)
            raise
        caller = next(
            (p for p in self._peers if (p.rank, p.remote_port, p.port) == (rank, its_port, my_port)), None
        )
        if caller is None or caller in self._met:
            self._drop(sock)
            return
        sock.sendall(self._greeting.pack(1, caller))
        self._meet(caller, sock)

    def _answer_misfit(self, sock: socket.socket) -> None:
        """Let the caller see the difference, too."""
        stand_in = Peer(0, 0, "", 0, "")
        sock.sendall(self._greeting.pack(1, stand_in))

    def _call(self, peer: Peer) -> None:
        sock = self._track(socket.socket())
        try:
            sock.bind((peer.local_address, 0))
        except OSError as error:
            raise TransportError(
                f"rank {self._greeting.rank} cannot use its address {peer.local_address}: {error.strerror}; "
                "is the fabric provisioned?"
            ) from error
        code = sock.connect_ex((peer.remote_address, self._tcp_port))
        if code not in (0, errno.EINPROGRESS):
            self._drop(sock)
            self._call_again(peer, code)
            return
        self._selector.register(sock, selectors.EVENT_WRITE, lambda s: self._called(peer, s))

    def _called(self, peer: Peer, sock: socket.socket) -> None:
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._drop(sock)
            self._call_again(peer, code)
            return
        sock.sendall(self._greeting.pack(0, peer))
        self._selector.modify(sock, selectors.EVENT_READ, lambda s: self._greeted_by_listener(peer, s))

    def _call_again(self, peer: Peer, code: int) -> None:
        if code not in RETRIED:
            raise TransportError(f"rank {self._greeting.rank} cannot reach {peer}: {errno.errorcode[code]}")
        self._last_error[peer] = errno.errorcode[code]
        self._retries.append((monotonic() + RETRY_S, peer))

    def _greeted_by_listener(self, peer: Peer, sock: socket.socket) -> None:
        raw = self._read_greeting(sock)
        if raw is None:
            if sock.fileno() < 0:
                self._call_again(peer, errno.ECONNRESET)
            return
        try:
            self._greeting.unpack(raw, role=1)
        except PermissionError:
            raise TransportError(
                f"rank {self._greeting.rank}: {peer} does not know this job's token (HIPSNET_TOKEN)"
            ) from None
        self._meet(peer, sock)

    def _read_greeting(self, sock: socket.socket) -> bytes | None:
        """The whole greeting, or None: not yet all there, or (then the socket is closed) never."""
        try:
            raw = sock.recv(GREETING_BYTES, socket.MSG_PEEK)
            if len(raw) == GREETING_BYTES:
                return sock.recv(GREETING_BYTES)
            if raw:
                return None
        except BlockingIOError:
            return None
        except OSError:
            pass
        self._drop(sock)
        return None

    def _meet(self, peer: Peer, sock: socket.socket) -> None:
        self._selector.unregister(sock)
        self._half_open.discard(sock)
        self._met[peer] = sock

    def _track(self, sock: socket.socket) -> socket.socket:
        sock.setblocking(False)
        self._half_open.add(sock)
        return sock

    def _drop(self, sock: socket.socket) -> None:
        if sock in self._selector.get_map():
            self._selector.unregister(sock)
        self._half_open.discard(sock)
        sock.close()

    def _missing(self, timeout_s: float) -> str:
        missing = [
            f"{peer}" + (f" [{self._last_error[peer]}]" if peer in self._last_error else "")
            for peer in self._peers
            if peer not in self._met
        ]
        return (
            f"rank {self._greeting.rank} waited {timeout_s:g} s for {', '.join(missing)}; "
            "did every rank start, and are the cables up (hipsnet ping)?"
        )
