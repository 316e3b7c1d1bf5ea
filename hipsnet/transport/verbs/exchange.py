"""What two queue pairs tell each other before they speak, over the TCP connection that introduced their ranks."""

from __future__ import annotations

import hmac
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address
from time import monotonic

from hipsnet.errors import TransportError
from hipsnet.transport.interface import MESSAGE_LIMIT, Peer
from hipsnet.transport.verbs.devices import gid_of
from hipsnet.transport.verbs.flow import WINDOW

MAGIC = b"RoCE"
# magic, QP number, first PSN, GID, code of the active MTU (ibv_mtu), window, message limit
BODY = struct.Struct("<4sII16sHHI")
PARAMETERS_BYTES = BODY.size + sha256().digest_size
READY = b"\x01"
# A farewell: magic, how many of the peer's pieces had arrived.
BYE = struct.Struct("<4sQ")
BYE_MAGIC = b"bye."

Seal = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Parameters:
    """One end of a connection; `mtu` as ibv_mtu codes it (1: 256 bytes ... 5: 4096)."""

    number: int
    psn: int
    gid: IPv6Address
    mtu: int
    window: int = WINDOW
    message_limit: int = MESSAGE_LIMIT

    def pack(self, seal: Seal) -> bytes:
        body = BODY.pack(
            MAGIC, self.number, self.psn, self.gid.packed, self.mtu, self.window, self.message_limit
        )
        return body + seal(body)

    @classmethod
    def unpack(cls, raw: bytes, seal: Seal, peer: Peer) -> Parameters:
        """What `peer` sent; TransportError if it is not what this end can talk to."""
        body = raw[: BODY.size]
        if not hmac.compare_digest(raw[BODY.size :], seal(body)):
            raise TransportError(f"{peer} sent queue pair parameters with a wrong seal; is it hipsnet?")
        magic, number, psn, gid, mtu, window, limit = BODY.unpack(body)
        for what, wanted, found in (
            ("the introduction of a queue pair", MAGIC, magic),
            (f"the GID of {peer.remote_address}", gid_of(peer.remote_address), IPv6Address(gid)),
            ("a window of", WINDOW, window),
            ("messages of at most", MESSAGE_LIMIT, limit),
        ):
            if wanted != found:
                raise TransportError(f"{peer} sent {found!s}; wanted: {what} {wanted!s}")
        if not 1 <= mtu <= 5:
            raise TransportError(f"{peer} sent the path MTU code {mtu}; wanted: 1 (256 bytes) to 5 (4096)")
        return cls(number, psn, IPv6Address(gid), mtu)


def swap(
    sockets: Sequence[socket.socket],
    peers: Sequence[Peer],
    mine: Sequence[bytes],
    size: int,
    deadline_s: float,
) -> list[bytes]:
    """Send each peer its bytes, and read `size` from each. Raises TransportError naming who does not answer."""
    for sock, peer, words in zip(sockets, peers, mine, strict=True):
        with _patient(sock, peer, deadline_s):
            sock.sendall(words)
    answers = []
    for sock, peer in zip(sockets, peers, strict=True):
        with _patient(sock, peer, deadline_s):
            answers.append(_read(sock, size))
    return answers


def arrived_before(farewell: bytes) -> int:
    """How many pieces a peer had got before it closed; 0 if it did not say so."""
    if len(farewell) != BYE.size:
        return 0
    magic, arrived = BYE.unpack(farewell)
    return int(arrived) if magic == BYE_MAGIC else 0


@contextmanager
def _patient(sock: socket.socket, peer: Peer, deadline_s: float) -> Iterator[None]:
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
