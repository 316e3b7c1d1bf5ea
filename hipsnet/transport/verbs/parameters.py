# SPDX-License-Identifier: Apache-2.0
"""The parameters that the two ends of a queue pair send each other."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv6Address

from hipsnet.errors import TransportError
from hipsnet.transport.interface import Peer
from hipsnet.transport.qp_bootstrap import SEAL_BYTES, Seal, agree, opened, sealed
from hipsnet.transport.verbs.devices import gid_of
from hipsnet.transport.verbs.layout import SLOT_BYTES, WINDOW

MAGIC = b"RoCE"
# magic, QP number, first PSN, GID, code of the active MTU (ibv_mtu), window, message limit, landing
BODY = struct.Struct("<4sII16sHHIIQ")
PARAMETERS_BYTES = BODY.size + SEAL_BYTES


@dataclass(frozen=True)
class Parameters:
    """One end of a connection; `mtu` as ibv_mtu codes it (1: 256 bytes ... 5: 4096).

    `landing` is the remote key and the address that a probe of this end names.
    """

    number: int
    psn: int
    gid: IPv6Address
    mtu: int
    landing: tuple[int, int]
    window: int = WINDOW
    message_limit: int = SLOT_BYTES

    def pack(self, seal: Seal) -> bytes:
        body = BODY.pack(
            MAGIC,
            self.number,
            self.psn,
            self.gid.packed,
            self.mtu,
            self.window,
            self.message_limit,
            *self.landing,
        )
        return sealed(body, seal)

    @classmethod
    def unpack(cls, raw: bytes, seal: Seal, peer: Peer) -> Parameters:
        """What `peer` sent; TransportError if it is not what this end can talk to."""
        magic, number, psn, gid, mtu, window, limit, *landing = BODY.unpack(opened(raw, seal, peer))
        agree(
            peer,
            (
                ("queue pair parameters that begin with", MAGIC, magic),
                (f"the GID of {peer.remote_address}", gid_of(peer.remote_address), IPv6Address(gid)),
                ("a window of", WINDOW, window),
                ("messages of at most", SLOT_BYTES, limit),
            ),
        )
        if not 1 <= mtu <= 5:
            raise TransportError(f"{peer} sent the path MTU code {mtu}; allowed: 1 (256 bytes) to 5 (4096)")
        return cls(number, psn, IPv6Address(gid), mtu, (landing[0], landing[1]))
