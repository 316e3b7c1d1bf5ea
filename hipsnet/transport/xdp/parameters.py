# SPDX-License-Identifier: Apache-2.0
"""The parameters that both ends of a connection over AF_XDP exchange before they connect."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hipsnet.transport.interface import Peer
from hipsnet.transport.qp_bootstrap import SEAL_BYTES, Seal, agree, opened, sealed

MAGIC = b"XDP3"
# magic, number of the queue pair, first PSN, path MTU, window, receives posted
BODY = struct.Struct("<4sIIIII")
PARAMETERS_BYTES = BODY.size + SEAL_BYTES

RECEIVES = 128
"""Receives that each end keeps posted: as many as the other end may post messages and writes."""


@dataclass(frozen=True)
class Parameters:
    """One end of a connection.

    `path_mtu` is the largest payload of a packet that its interface can send, `window` the number of such packets
    that it can buffer.
    """

    number: int
    psn: int
    path_mtu: int
    window: int

    def pack(self, seal: Seal) -> bytes:
        body = BODY.pack(MAGIC, self.number, self.psn, self.path_mtu, self.window, RECEIVES)
        return sealed(body, seal)

    @classmethod
    def unpack(cls, raw: bytes, seal: Seal, peer: Peer) -> Parameters:
        """The parameters of `peer`. Raises TransportError if they are incompatible."""
        magic, number, psn, path_mtu, window, receives = BODY.unpack(opened(raw, seal, peer))
        agree(
            peer,
            (
                ("queue pair parameters that begin with", MAGIC, magic),
                ("receives posted", RECEIVES, receives),
            ),
        )
        return cls(number, psn, path_mtu, window)
