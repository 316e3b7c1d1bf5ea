# SPDX-License-Identifier: Apache-2.0
"""What a transport is: it connects this rank with its neighbours, and hands the connections to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Peer:
    """A neighbour: out of my `port` at `local_address`, into its `remote_port` at `remote_address`.

    Both ends describe the same connection, each from its own side.
    """

    rank: int
    port: int
    local_address: str
    remote_port: int
    remote_address: str

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.remote_address}) at level {self.port}"


class Transport(Protocol):
    """Connects this rank with its neighbours.

    The transport's wire (hipsnet/engine/wire) takes the connections by a method `detach` of its own transport;
    then the transport must not be used any more.
    """

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        """Connect to all peers, in any order of start; raises TransportError naming the missing ones."""

    def close(self) -> None:
        """Close every connection and listener that has not been detached."""
