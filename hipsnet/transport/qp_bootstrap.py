# SPDX-License-Identifier: Apache-2.0
"""Setting up and closing queue pairs over the TCP connection of the handshake (handshake.py).

Each end sends its parameters, sealed, then that it is ready; when it closes, how much has arrived.
"""

from __future__ import annotations

import hmac
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from time import monotonic

from hipsnet.errors import TransportError
from hipsnet.transport.interface import Peer

Seal = Callable[[bytes], bytes]
SEAL_BYTES = sha256().digest_size
READY = b"\x01"
# A farewell: magic, how many of the peer's pieces had arrived.
BYE = struct.Struct("<4sQ")
_BYE_MAGIC = b"bye."


def sealed(body: bytes, seal: Seal) -> bytes:
    """The body with its seal, SEAL_BYTES longer."""
    return body + seal(body)


def opened(raw: bytes, seal: Seal, peer: Peer) -> bytes:
    """The body that `peer` has sealed; TransportError if the seal is wrong."""
    body = raw[:-SEAL_BYTES]
    if not hmac.compare_digest(raw[-SEAL_BYTES:], seal(body)):
        raise TransportError(f"{peer} sent queue pair parameters with a wrong seal; is it hipsnet?")
    return body


def agree(peer: Peer, parameters: Iterable[tuple[str, object, object]]) -> None:
    """Compare each of (what, expected, received); TransportError names the one that differs."""
    for what, expected, received in parameters:
        if expected != received:
            raise TransportError(f"{peer} sent {received!s}; expected: {what} {expected!s}")


def swap(
    sockets: Sequence[socket.socket],
    peers: Sequence[Peer],
    mine: Sequence[bytes],
    size: int,
    deadline_s: float,
) -> list[bytes]:
    """Send each peer its bytes, and read `size` from each. Raises TransportError naming a peer that is silent."""
    for sock, peer, words in zip(sockets, peers, mine, strict=True):
        with _within(sock, peer, deadline_s):
            sock.sendall(words)
    answers = []
    for sock, peer in zip(sockets, peers, strict=True):
        with _within(sock, peer, deadline_s):
            answers.append(_read(sock, size))
    return answers


def farewell(arrived: int) -> bytes:
    """The last message, of BYE.size bytes, to a peer of which so many pieces have arrived."""
    return BYE.pack(_BYE_MAGIC, arrived)


def arrived_before(words: bytes) -> int:
    """The number of pieces that a peer has got before it closed; 0 if it did not report it."""
    if len(words) != BYE.size:
        return 0
    magic, arrived = BYE.unpack(words)
    return int(arrived) if magic == _BYE_MAGIC else 0


@contextmanager
def _within(sock: socket.socket, peer: Peer, deadline_s: float) -> Iterator[None]:
    try:
        sock.settimeout(max(0.001, deadline_s - monotonic()))
        yield
    except OSError as error:
        raise TransportError(
            f"{peer} did not set up its queue pair: {error.strerror or error}; see its own error"
        ) from error


def _read(sock: socket.socket, size: int) -> bytes:
    raw = b""
    while len(raw) < size:
        more = sock.recv(size - len(raw))
        if not more:
            raise ConnectionError("it closed the connection")
        raw += more
    return raw
