# SPDX-License-Identifier: Apache-2.0
"""Connecting over RDMA: an RC queue pair for each neighbour and port, ready to send, and their ends.

The engine's wire (hipsnet/engine/wire/verbs.py) posts and polls.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from hipsnet.transport.greeting import Greeting
from hipsnet.transport.handshake import connect_all
from hipsnet.transport.interface import Peer
from hipsnet.transport.options import Options
from hipsnet.transport.qp_bootstrap import READY, farewell, swap
from hipsnet.transport.verbs.device import Device
from hipsnet.transport.verbs.devices import Endpoint, endpoint_of
from hipsnet.transport.verbs.parameters import PARAMETERS_BYTES, Parameters
from hipsnet.transport.verbs.qp_attributes import QpAttributes
from hipsnet.transport.verbs.queue_pair import QueuePair


@dataclass(frozen=True)
class Connection:
    """A queue pair to a peer.

    The TCP connection of the handshake stays open: it is closed when the peer's process ends, long before the
    retries are exhausted, and carries the last message of a peer that closes.
    """

    peer: Peer
    endpoint: Endpoint
    device: int  # its place in `devices`
    pair: QueuePair
    socket: socket.socket


class VerbsTransport:
    """The RDMA devices of a rank, and its connections in the order of `connect`."""

    def __init__(self, greeting: Greeting, tcp_port: int, qp_attributes: QpAttributes) -> None:
        self.qp_attributes = qp_attributes
        self.devices: list[Device] = []
        self.connections: list[Connection] = []
        self._greeting = greeting
        self._tcp_port = tcp_port
        self._pairs: list[QueuePair] = []

    @classmethod
    def open(cls, greeting: Greeting, options: Options) -> VerbsTransport:
        """Return a transport with the options that concern RDMA queue pairs."""
        return cls(greeting, options.tcp_port, options.qp_attributes)

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        """Connect to all peers, in any order of start; raises TransportError naming the missing ones."""
        deadline = monotonic() + timeout_s
        sockets: list[socket.socket] = []
        try:
            endpoints = self._open(peers)
            sockets += connect_all(self._greeting, peers, self._tcp_port, timeout_s)
            self._introduce(peers, sockets, deadline)
        except BaseException:
            for sock in sockets:
                sock.close()
            self.close()
            raise
        names = [device.name for device in self.devices]
        for peer, endpoint, pair, sock in zip(peers, endpoints, self._pairs, sockets, strict=True):
            sock.setblocking(False)
            device = names.index(endpoint.device)
            self.connections.append(Connection(peer, endpoint, device, pair, sock))

    def close_pairs(self, arrived: Sequence[int] = ()) -> None:
        """Close the queue pairs; nothing can write into memory of this process any more when it returns.

        `arrived`: by connection, how many of the peer's writes and messages have arrived. Peers count that many
        as sent, so an acknowledgement that is lost now does not block them.
        """
        for connection, count in zip(self.connections, arrived, strict=False):
            with suppress(OSError):
                connection.socket.send(farewell(count))
        for pair in self._pairs:
            pair.close()

    def close(self) -> None:
        """Close everything. Memory that was registered in the devices' domains must be deregistered before."""
        self.close_pairs()
        for device in self.devices:
            device.close()
        for connection in self.connections:
            connection.socket.close()
        self._pairs.clear()
        self.devices.clear()
        self.connections.clear()

    def _open(self, peers: Sequence[Peer]) -> list[Endpoint]:
        addresses = [peer.local_address for peer in peers]
        # Once for each port: finding one means to read its device's table of GIDs.
        found = {address: endpoint_of(address) for address in dict.fromkeys(addresses)}
        endpoints = [found[address] for address in addresses]
        devices = {}
        for name, connections in Counter(endpoint.device for endpoint in endpoints).items():
            devices[name] = Device(name, connections)
            self.devices.append(devices[name])
        for endpoint in endpoints:
            self._pairs.append(QueuePair(devices[endpoint.device], endpoint))
        return endpoints

    def _introduce(self, peers: Sequence[Peer], sockets: Sequence[socket.socket], deadline_s: float) -> None:
        """Send and receive the parameters of the queue pairs; then wait until both ends can receive."""
        seal = self._greeting.seal
        mine = [pair.mine.pack(seal) for pair in self._pairs]
        theirs = swap(sockets, peers, mine, PARAMETERS_BYTES, deadline_s)
        for peer, pair, raw in zip(peers, self._pairs, theirs, strict=True):
            pair.connect(Parameters.unpack(raw, seal, peer), self.qp_attributes)
        swap(sockets, peers, [READY] * len(peers), len(READY), deadline_s)
