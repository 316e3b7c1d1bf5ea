# SPDX-License-Identifier: Apache-2.0
"""Ranks in one process, connected over addresses of the loopback interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Peer
from hipsnet.transport.tcp.transport import TcpTransport

TCP_PORT = 29481
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class End:
    """A rank's transport; its connections are to `peers`, in the order of the links."""

    transport: TcpTransport
    peers: list[Peer]


@contextmanager
def meeting(links: Sequence[tuple[int, int]]) -> Iterator[list[End]]:
    """The ends by rank, each link a connection; closed afterwards."""
    count = 1 + max(max(link) for link in links)
    ends = [
        End(TcpTransport(Greeting(rank, count, "meeting", "token"), TCP_PORT), _peers(rank, links))
        for rank in range(count)
    ]
    try:
        with ThreadPoolExecutor(count) as pool:
            for meets in [pool.submit(end.transport.connect, end.peers, TIMEOUT_S) for end in ends]:
                meets.result()
        yield ends
    finally:
        for end in ends:
            end.transport.close()


def _peers(rank: int, links: Sequence[tuple[int, int]]) -> list[Peer]:
    others = [sum(link) - rank for link in links if rank in link]
    return [Peer(other, 0, _address(rank), 0, _address(other)) for other in others]


def _address(rank: int) -> str:
    return f"127.83.0.{rank + 1}"
