"""What two ends of a connection over AF_XDP tell each other, over the TCP connection that introduced them."""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass

from hipsnet.errors import TransportError
from hipsnet.transport.interface import MESSAGE_LIMIT, Peer

MAGIC = b"XDP1"
# magic, number of the queue pair, first PSN, path MTU, receives posted, message limit
BODY = struct.Struct("<4sIIIII")
PARAMETERS_BYTES = BODY.size + 32

RECEIVES = 256
"""Receives that each end keeps posted; the pair's credits keep the other from sending more."""

Seal = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Parameters:
    """One end of a connection; `path_mtu` is the largest payload of a packet that its interface takes."""

    number: int
    psn: int
    path_mtu: int

    def pack(self, seal: Seal) -> bytes:
        body = BODY.pack(MAGIC, self.number, self.psn, self.path_mtu, RECEIVES, MESSAGE_LIMIT)
        return body + seal(body)

    @classmethod
    def unpack(cls, raw: bytes, seal: Seal, peer: Peer) -> Parameters:
        """What `peer` sent; TransportError if it is not what this end can talk to."""
        body = raw[: BODY.size]
        if not hmac.compare_digest(raw[BODY.size :], seal(body)):
            raise TransportError(f"{peer} sent queue pair parameters with a wrong seal; is it hipsnet?")
        magic, number, psn, path_mtu, receives, limit = BODY.unpack(body)
        for what, wanted, found in (
            ("the introduction of a queue pair", MAGIC, magic),
            ("receives posted", RECEIVES, receives),
            ("messages of at most", MESSAGE_LIMIT, limit),
        ):
            if wanted != found:
                raise TransportError(f"{peer} sent {found!r}; wanted: {what} {wanted!r}")
        return cls(number, psn, path_mtu)
