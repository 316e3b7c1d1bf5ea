# SPDX-License-Identifier: Apache-2.0
"""Transport over RoCEv2 in user space: reliable connections on AF_XDP sockets of this process."""

from __future__ import annotations

import secrets
import select
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address
from time import monotonic, monotonic_ns
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroute2 import IPRoute

from hipsnet.errors import TransportError
from hipsnet.stack.ports.loop import Stack
from hipsnet.stack.roce.pair import Pair
from hipsnet.stack.xsk.sockets import PortConfig, pins_of
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.handshake import connect_all
from hipsnet.transport.interface import MESSAGE_LIMIT, Completion, ConnectionLost, Event, Peer, Region
from hipsnet.transport.options import Options
from hipsnet.transport.qp_bootstrap import BYE, READY, arrived_before, farewell, swap
from hipsnet.transport.verbs.qp_attributes import QpAttributes
from hipsnet.transport.xdp.connection import Connection, Message, Write
from hipsnet.transport.xdp.options import NodePorts
from hipsnet.transport.xdp.parameters import PARAMETERS_BYTES, RECEIVES, Parameters
from hipsnet.transport.xdp.path import Interface, Path, interface_of, path_mtu, path_to
from hipsnet.transport.xdp.window import window

CHUNK_BYTES = 4096
ACK_DELAY_NS = 200_000
"""ACKs wait so long for data to go with, and one ACK is sent for several messages: fewer wake-ups of the peer."""

SEND_ACK_DELAY_NS = 4_000_000
"""Nobody waits for the acknowledgement of a message."""

LATE_NS = 5_000_000
"""How much a pair may catch up after a scheduling delay, at the rate that congestion control permits."""

UNLIMITED_BPS = 10_000_000_000
"""The rate that congestion control assumes for a port without a limit, as PFC does."""

FIRST_UDP_PORT, UDP_PORTS = 49152, 16384
DRAIN_STEP_S = 0.05
FLUSH_S = 0.5
"""Longer than the longest pause at 100 Mbit/s (0.34 s), far shorter than the time-outs of peers."""


class Detached(NamedTuple):
    """A stack, and the pair and the socket of the handshake of each connection, in the order of `connect`."""

    stack: Stack
    pairs: list[Pair]
    sockets: list[socket.socket]


class XdpTransport:
    """A `Transport` on a stack of its own, with a socket on each port of the node.

    The TCP connection of the handshake stays open: the kernel closes it when the peer's process ends, long before
    retries are exhausted.
    """

    def __init__(
        self, greeting: Greeting, tcp_port: int, qp_attributes: QpAttributes, node: NodePorts
    ) -> None:
        self._greeting = greeting
        self._tcp_port = tcp_port
        self._qp_attributes = qp_attributes
        self._node = node
        self._stack = Stack()
        self._ports: dict[int, tuple[int, Interface]] = {}  # by ifindex: the stack's number
        self._regions: dict[int, Any] = {}  # by key: the region's first byte
        self._connections: list[Connection] = []
        self._sockets: dict[Connection, socket.socket] = {}  # of the connections that live
        self._by_descriptor: dict[int, Connection] = {}
        self._farewells: dict[Connection, bytes] = {}
        self._completions: list[Completion] = []
        self._epoll = select.epoll()
        self._receives = False

    @classmethod
    def open(cls, greeting: Greeting, options: Options) -> XdpTransport:
        """Return a transport with the options that concern AF_XDP; `options.node` is required."""
        assert options.node is not None, "the communicator passes its node's ports"
        return cls(greeting, options.tcp_port, options.qp_attributes, options.node)

    def register(self, memory: NDArray[np.uint8]) -> Region:
        key = self._stack.register(memory)
        self._regions[key] = self._stack.pointer(memory)
        return Region(key, memory)

    def deregister(self, region: Region) -> None:
        self._stack.deregister(region.key)
        del self._regions[region.key]

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        deadline = monotonic() + timeout_s
        try:
            with IPRoute() as netlink:
                self._open_ports(netlink)
                sockets = connect_all(self._greeting, peers, self._tcp_port, timeout_s)
                paths = [path_to(netlink, peer) for peer in peers]
            for index, (peer, path, sock) in enumerate(zip(peers, paths, sockets, strict=True)):
                number = self._port(path, peer)[0]
                pair = self._stack.pair(number, index, self._qp_attributes.priority, RECEIVES)
                connection = Connection(index, peer, pair)
                self._connections.append(connection)
                self._sockets[connection] = sock
            self._introduce(peers, paths, sockets, deadline)
        except BaseException:
            self.close()
            raise
        for connection, sock in self._sockets.items():
            sock.setblocking(False)
            self._by_descriptor[sock.fileno()] = connection
            self._epoll.register(sock, select.EPOLLIN)

    def post_write(
        self,
        connection: int,
        region: Region,
        offset: int,
        length: int,
        remote_key: int,
        remote_offset: int,
        immediate: int,
    ) -> None:
        address = self._regions[region.key] + offset
        self._post(connection, Write(address, length, remote_offset, remote_key, immediate))

    def post_message(self, connection: int, payload: bytes) -> None:
        if len(payload) > MESSAGE_LIMIT:
            raise TransportError(f"a message carries at most {MESSAGE_LIMIT} bytes, not {len(payload)}")
        self._post(connection, Message(payload))

    def abandon(self) -> None:
        for connection in self._sockets:
            connection.abandon()

    def poll(self, timeout_s: float) -> list[Completion]:
        self._work(0 if self._completions else timeout_s)
        completions, self._completions = self._completions, []
        return completions

    def flush(self) -> None:
        self._stack.flush(FLUSH_S)

    def drain(self, timeout_s: float) -> None:
        deadline = monotonic() + timeout_s
        while not self._is_drained() and monotonic() < deadline:
            self._work(min(DRAIN_STEP_S, max(0.0, deadline - monotonic())))

    def detach(self) -> Detached:
        """The connected stack; the caller owns it, and posts the receives. Nothing has been sent or received."""
        detached = Detached(self._stack, [c.pair for c in self._connections], [*self._sockets.values()])
        self._epoll.close()
        return detached

    def close(self) -> None:
        for connection, sock in self._sockets.items():
            # Replaces acknowledgements that have not reached the peer: after close() none are sent.
            with suppress(OSError):
                sock.send(farewell(connection.arrived))
        self._stack.close()
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()
        self._by_descriptor.clear()
        self._epoll.close()

    # connecting

    def _open_ports(self, netlink: IPRoute) -> None:
        configs: list[PortConfig] = []
        for number, address in self._node.ports:
            interface = interface_of(netlink, address)
            self._ports[interface.index] = len(configs), interface
            configs.append(self._port_config(number, interface))
        self._stack.open_ports(configs)

    def _port_config(self, number: int, interface: Interface) -> PortConfig:
        return PortConfig(
            ifname=interface.name,
            mac=interface.mac,
            mtu=interface.mtu,
            pins=pins_of(self._node.fabric, self._node.node),
            key=number,
            rate_bps=self._node.rate_bps,
            priority=self._qp_attributes.priority,
            xoff_chunks=-(-self._node.xoff_bytes // CHUNK_BYTES),
            xon_chunks=self._node.xon_bytes // CHUNK_BYTES,
            watchdog=self._node.watchdog,
        )

    def _port(self, path: Path, peer: Peer) -> tuple[int, Interface]:
        if path.ifindex not in self._ports:
            known = ", ".join(interface.name for _, interface in self._ports.values())
            raise TransportError(
                f"the route to {peer} uses interface {path.ifindex}, which is not a port of this node "
                f"({known}); run `hipsnet provision`"
            )
        return self._ports[path.ifindex]

    def _introduce(
        self,
        peers: Sequence[Peer],
        paths: Sequence[Path],
        sockets: Sequence[socket.socket],
        deadline_s: float,
    ) -> None:
        """Exchange the pairs' parameters, connect, and wait until both ends can receive."""
        seal = self._greeting.seal
        sharing = Counter(path.ifindex for path in paths)
        mine = [
            self._parameters(connection, path_mtu(path.mtu), sharing[path.ifindex])
            for connection, path in zip(self._connections, paths, strict=True)
        ]
        raw = swap(sockets, peers, [each.pack(seal) for each in mine], PARAMETERS_BYTES, deadline_s)
        theirs = [Parameters.unpack(words, seal, peer) for words, peer in zip(raw, peers, strict=True)]
        for connection, path, ours, other in zip(self._connections, paths, mine, theirs, strict=True):
            self._connect(connection, path, ours, other)
        swap(sockets, peers, [READY] * len(peers), len(READY), deadline_s)

    def _parameters(self, connection: Connection, packet_bytes: int, sharing: int) -> Parameters:
        room = window(packet_bytes, self._node.rate_bps, self._node.delay_ns, sharing)
        return Parameters(connection.pair.number, secrets.randbits(24), packet_bytes, room)

    def _connect(self, connection: Connection, path: Path, mine: Parameters, theirs: Parameters) -> None:
        peer, qp_attributes = connection.peer, self._qp_attributes
        connection.pair.connect(
            (self._node.rate_bps or UNLIMITED_BPS) if self._node.ecn else 0,
            monotonic_ns(),
            local_mac=_mac(self._port(path, peer)[1].mac),
            peer_mac=_mac(path.mac),
            local_ip=int(IPv4Address(peer.local_address)),
            peer_ip=int(IPv4Address(peer.remote_address)),
            peer_qpn=theirs.number,
            send_psn=mine.psn,
            receive_psn=theirs.psn,
            source_port=FIRST_UDP_PORT + (mine.number ^ theirs.number) % UDP_PORTS,
            window=min(mine.window, theirs.window),
            path_mtu=min(mine.path_mtu, theirs.path_mtu),
            dscp=qp_attributes.dscp,
            retry_count=qp_attributes.retries,
            timeout_ns=4096 << qp_attributes.ack_timeout,
            ack_delay_ns=ACK_DELAY_NS,
            send_ack_delay_ns=min(SEND_ACK_DELAY_NS, (4096 << qp_attributes.ack_timeout) // 8),
            credits=True,
            burst_ns=LATE_NS,
            congestion_control=self._node.ecn,
        )

    # working

    def _post(self, index: int, work: Write | Message) -> None:
        connection = self._connections[index]
        if connection in self._sockets:
            connection.post(work)

    def _work(self, timeout_s: float) -> None:
        """Run the stack; add what happened to the completions."""
        if not self._receives:
            for connection in self._connections:
                connection.pair.post_receives(RECEIVES, MESSAGE_LIMIT)
        self._receives = True
        try:
            finished = self._stack.poll(min(timeout_s, DRAIN_STEP_S))
        except TransportError as error:
            for connection in list(self._sockets):
                self._lost(connection, str(error))
            return
        for done in finished:
            connection = self._connections[done.tag]
            if connection in self._sockets:
                try:
                    self._completions += connection.take(done)
                except ConnectionLost as lost:
                    self._lost(connection, str(lost))
        # Handled after the stack's frames: a peer sends its last messages before it closes TCP.
        for descriptor, _ in self._epoll.poll(0):
            self._hear(self._by_descriptor[descriptor])

    def _is_drained(self) -> bool:
        return not self._stack.is_owing and all(connection.is_idle for connection in self._sockets)

    def _hear(self, connection: Connection) -> None:
        """The peer reports how much had arrived before it closed, or has ended without a report."""
        words = self._farewells.get(connection, b"")
        try:
            said = self._sockets[connection].recv(BYE.size - len(words))
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(connection, error.strerror or str(error))
            return
        words += said
        self._farewells[connection] = words
        if not said:
            self._lost(connection, "it closed the connection")
        elif len(words) == BYE.size:
            self._lost(connection, "it closed the connection", arrived_before(words))

    def _lost(self, connection: Connection, why: str, arrived: int = 0) -> None:
        """End a connection; `arrived` pieces had reached the peer, acknowledged or not."""
        sock = self._sockets.pop(connection)
        self._by_descriptor.pop(sock.fileno(), None)
        with suppress(OSError, ValueError):
            self._epoll.unregister(sock)
        sock.close()
        self._completions += connection.finish(arrived)
        connection.drop()
        self._completions.append(Completion(Event.CLOSED, connection.index, 0, why.encode()))


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
