# SPDX-License-Identifier: Apache-2.0
"""Messages of two ranks on a new TCP connection: a hello with a nonce, then a sealed greeting.

The seal is an HMAC-SHA256 under the job's token, which never travels. It covers the greeting, both nonces, and
both ends of the TCP connection: a greeting that was recorded on another connection, or is passed on by a
machine in between with a TCP connection of its own, does not fit.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from ipaddress import IPv4Address

from hipsnet.errors import TransportError
from hipsnet.transport.interface import Peer

PROTOCOL_VERSION = 3
MAGIC = b"HiPS"
NONCE_BYTES = 16
CONFIGURATION_BYTES = 256
HELLO = struct.Struct(f"<4sH{NONCE_BYTES}s")  # magic, version, nonce
# role, rank, world size, port, the other's rank and port, configuration
BODY = struct.Struct(f"<HIIHIH{CONFIGURATION_BYTES}s")
SEAL_BYTES = sha256().digest_size
GREETING_BYTES = BODY.size + SEAL_BYTES
_END = struct.Struct(f"!4sH{NONCE_BYTES}s")  # address, TCP port, nonce


class Role(IntEnum):
    """Which end of the TCP connection sends a greeting."""

    CALLER = 0
    LISTENER = 1


@dataclass(frozen=True)
class End:
    """One end of a TCP connection: IPv4 address, TCP port, and the nonce that it has sent."""

    address: str
    tcp_port: int
    nonce: bytes

    def pack(self) -> bytes:
        return _END.pack(IPv4Address(self.address).packed, self.tcp_port, self.nonce)


@dataclass(frozen=True)
class Session:
    """One TCP connection, described alike by both ends."""

    caller: End
    listener: End


@dataclass(frozen=True)
class Sender:
    """The sender and the receiver of a greeting: their ranks, and the ports that the connection joins."""

    rank: int
    port: int
    to_rank: int
    to_port: int


@dataclass(frozen=True)
class Greeting:
    """The data that a rank announces; `configuration` contains all settings that must be equal on every rank."""

    rank: int
    world_size: int
    configuration: str
    token: str

    def pack(self, role: Role, peer: Peer, session: Session) -> bytes:
        configuration = self.configuration.encode()
        if len(configuration) > CONFIGURATION_BYTES:
            raise TransportError(
                f"the configuration text has {len(configuration)} bytes; at most {CONFIGURATION_BYTES} fit"
            )
        body = BODY.pack(
            role, self.rank, self.world_size, peer.port, peer.rank, peer.remote_port, configuration
        )
        return body + self._seal_of(body, session)

    def unpack(self, raw: bytes, role: Role, session: Session) -> Sender:
        """The sender of a greeting. Raises PermissionError for a stranger, TransportError for another job."""
        body, seal = raw[: BODY.size], raw[BODY.size :]
        if not hmac.compare_digest(seal, self._seal_of(body, session)):
            raise PermissionError
        its_role, rank, world_size, port, to_rank, to_port, configuration = BODY.unpack(body)
        if its_role != role:
            raise PermissionError
        for what, mine, its in (
            ("world size", self.world_size, world_size),
            ("configuration", self.configuration, configuration.rstrip(b"\0").decode(errors="replace")),
        ):
            if mine != its:
                raise TransportError(
                    f"rank {self.rank} and rank {rank} do not run the same job: "
                    f"{what} {mine!r} here, {its!r} there; "
                    "start every rank with the same settings and the same hipsnet"
                )
        return Sender(rank, port, to_rank, to_port)

    def seal(self, body: bytes) -> bytes:
        """The authentication code of `body`, which only members of this job can compute."""
        return hmac.digest(self.token.encode(), body, "sha256")

    def _seal_of(self, body: bytes, session: Session) -> bytes:
        return self.seal(body + session.caller.pack() + session.listener.pack())


def pack_hello(nonce: bytes) -> bytes:
    return HELLO.pack(MAGIC, PROTOCOL_VERSION, nonce)


def unpack_hello(raw: bytes) -> tuple[int, bytes]:
    """(version, nonce) of a hello. Raises PermissionError for what is none."""
    magic, version, nonce = HELLO.unpack(raw)
    if magic != MAGIC:
        raise PermissionError
    return version, nonce
