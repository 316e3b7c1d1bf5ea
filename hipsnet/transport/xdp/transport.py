# SPDX-License-Identifier: Apache-2.0
"""Setting up connections over RoCEv2 in user space, on AF_XDP sockets of this process."""

from __future__ import annotations

import secrets
import socket
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address
from time import monotonic, monotonic_ns
from typing import NamedTuple

from pyroute2 import IPRoute

from hipsnet.errors import TransportError
from hipsnet.stack.ports.loop import Stack
from hipsnet.stack.roce.pair import Pair
from hipsnet.stack.xsk.sockets import PortConfig, pins_of
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.handshake import connect_all
from hipsnet.transport.interface import Peer
from hipsnet.transport.options import Options
from hipsnet.transport.qp_bootstrap import READY, swap
from hipsnet.transport.verbs.qp_attributes import QpAttributes
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


class Detached(NamedTuple):
    """A stack, and the pair and the socket of the handshake of each connection, in the order of `connect`."""

    stack: Stack
    pairs: list[Pair]
    sockets: list[socket.socket]


class XdpTransport:
    """Connects the queue pairs of a stack of its own, with a socket on each port of the node.

    `hipsnet.engine.wire.xdp` takes over the stack by `detach`, and sends and receives.
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
        self._pairs: list[Pair] = []
        self._sockets: list[socket.socket] = []

    @classmethod
    def open(cls, greeting: Greeting, options: Options) -> XdpTransport:
        """Return a transport with the options that concern AF_XDP; `options.node` is required."""
        assert options.node is not None, "the communicator passes its node's ports"
        return cls(greeting, options.tcp_port, options.qp_attributes, options.node)

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        """Connect to all peers, in any order of start; raises TransportError naming the missing ones."""
        deadline = monotonic() + timeout_s
        try:
            with IPRoute() as netlink:
                self._open_ports(netlink)
                self._sockets = connect_all(self._greeting, peers, self._tcp_port, timeout_s)
                paths = [path_to(netlink, peer) for peer in peers]
            for index, (peer, path) in enumerate(zip(peers, paths, strict=True)):
                number = self._port(path, peer)[0]
                self._pairs.append(self._stack.pair(number, index, self._qp_attributes.priority, RECEIVES))
            self._introduce(peers, paths, deadline)
        except BaseException:
            self.close()
            raise

    def detach(self) -> Detached:
        """The connected stack; the caller owns it, and posts the receives. Nothing has been sent or received."""
        return Detached(self._stack, self._pairs, self._sockets)

    def close(self) -> None:
        """Close what has been opened; not after `detach`."""
        self._stack.close()
        for sock in self._sockets:
            sock.close()

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

    def _introduce(self, peers: Sequence[Peer], paths: Sequence[Path], deadline_s: float) -> None:
        """Exchange the pairs' parameters, connect, and wait until both ends can receive."""
        seal = self._greeting.seal
        sharing = Counter(path.ifindex for path in paths)
        mine = [
            self._parameters(pair, path_mtu(path.mtu), sharing[path.ifindex])
            for pair, path in zip(self._pairs, paths, strict=True)
        ]
        packed = [each.pack(seal) for each in mine]
        raw = swap(self._sockets, peers, packed, PARAMETERS_BYTES, deadline_s)
        theirs = [Parameters.unpack(words, seal, peer) for words, peer in zip(raw, peers, strict=True)]
        for number, peer in enumerate(peers):
            self._connect(self._pairs[number], peer, paths[number], mine[number], theirs[number])
        swap(self._sockets, peers, [READY] * len(peers), len(READY), deadline_s)

    def _parameters(self, pair: Pair, packet_bytes: int, sharing: int) -> Parameters:
        packets = window(packet_bytes, self._node.rate_bps, self._node.delay_ns, sharing)
        return Parameters(pair.number, secrets.randbits(24), packet_bytes, packets)

    def _connect(self, pair: Pair, peer: Peer, path: Path, mine: Parameters, theirs: Parameters) -> None:
        qp_attributes = self._qp_attributes
        timeout_ns = 4096 << qp_attributes.ack_timeout
        pair.connect(
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
            timeout_ns=timeout_ns,
            ack_delay_ns=ACK_DELAY_NS,
            send_ack_delay_ns=min(SEND_ACK_DELAY_NS, timeout_ns // 8),
            credits=True,
            burst_ns=LATE_NS,
            congestion_control=self._node.ecn,
        )


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
