# SPDX-License-Identifier: Apache-2.0
"""Transport over RDMA: RC queue pairs, RDMA WRITE WITH IMMEDIATE out of and into the callers' own memory."""

from __future__ import annotations

import select
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from hipsnet.errors import TransportError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.handshake import connect_all
from hipsnet.transport.interface import MESSAGE_LIMIT, Completion, ConnectionLost, Event, Peer, Region
from hipsnet.transport.options import Options
from hipsnet.transport.qp_bootstrap import BYE, READY, arrived_before, farewell, swap
from hipsnet.transport.verbs.connection import Connection, Kind
from hipsnet.transport.verbs.device import Device
from hipsnet.transport.verbs.devices import endpoint_of, why_lost
from hipsnet.transport.verbs.flow import Message, Write
from hipsnet.transport.verbs.memory import Memory
from hipsnet.transport.verbs.parameters import PARAMETERS_BYTES, Parameters
from hipsnet.transport.verbs.qp_attributes import QpAttributes

LOOK_S = 1.0
DRAIN_STEP_S = 0.05


class VerbsTransport:
    """A `Transport` on RDMA devices: one completion queue for each, and a descriptor to sleep on.

    The TCP connections of the handshake stay open: one is closed when the peer's process ends, long before the
    retries are exhausted, and carries the last message of a peer that closes.
    """

    def __init__(self, greeting: Greeting, tcp_port: int, qp_attributes: QpAttributes) -> None:
        self._greeting = greeting
        self._tcp_port = tcp_port
        self._qp_attributes = qp_attributes
        self._devices: dict[str, Device] = {}
        self._memory = Memory({})
        self._connections: list[Connection] = []
        self._live: dict[Connection, socket.socket] = {}
        self._by_number: dict[tuple[str, int], Connection] = {}
        self._unstarted: dict[int, Connection] = {}
        self._completions: list[Completion] = []
        self._sleepers: dict[int, Device | Connection] = {}
        self._epoll = select.epoll()
        self._next_look_s = 0.0

    def connect(self, peers: Sequence[Peer], timeout_s: float) -> None:
        deadline = monotonic() + timeout_s
        sockets: list[socket.socket] = []
        try:
            self._open(peers)
            sockets += connect_all(self._greeting, peers, self._tcp_port, timeout_s)
            self._introduce(peers, sockets, deadline)
        except BaseException:
            for sock in sockets:
                sock.close()
            self.close()
            raise
        self._live = dict(zip(self._connections, sockets, strict=True))
        for connection, sock in self._live.items():
            sock.setblocking(False)
            self._sleep_on(sock.fileno(), connection)
        for device in self._devices.values():
            self._sleep_on(device.descriptor, device)

    @classmethod
    def open(cls, greeting: Greeting, options: Options) -> VerbsTransport:
        """Return a transport with the options that concern RDMA queue pairs."""
        return cls(greeting, options.tcp_port, options.qp_attributes)

    def register(self, memory: NDArray[np.uint8]) -> Region:
        registration, is_new = self._memory.take(memory)
        if is_new:
            for connection in self._live:
                connection.announce(registration)
                self._unstarted[connection.index] = connection
        return Region(registration.key, memory)

    def deregister(self, region: Region) -> None:
        self._memory.give_back(region.key)

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
        self._enqueue(connection, Write(region.key, offset, length, remote_key, remote_offset, immediate))

    def post_message(self, connection: int, payload: bytes) -> None:
        if len(payload) > MESSAGE_LIMIT:
            raise TransportError(f"a message carries at most {MESSAGE_LIMIT} bytes, not {len(payload)}")
        self._enqueue(connection, Message(Kind.MESSAGE, payload))

    def abandon(self) -> None:
        for connection in self._live:
            connection.abandon()

    def poll(self, timeout_s: float) -> list[Completion]:
        self.flush()
        self._collect()
        if not self._completions:
            self._arm()
        if not self._completions:
            self._sleep(timeout_s)
        if monotonic() >= self._next_look_s:
            self._look()
        completions, self._completions = self._completions, []
        return completions

    def flush(self) -> None:
        unstarted, self._unstarted = self._unstarted, {}
        for connection in unstarted.values():
            self._start(connection)  # the device acknowledges what comes

    def drain(self, timeout_s: float) -> None:
        deadline = monotonic() + timeout_s
        while not all(connection.idle for connection in self._live) and monotonic() < deadline:
            self.poll(min(DRAIN_STEP_S, max(0.0, deadline - monotonic())))

    def close(self) -> None:
        for connection, sock in self._live.items():
            with suppress(OSError):
                sock.send(farewell(connection.arrived))
        for connection in self._connections:
            connection.end(0)
        # Nothing can touch our memory any more; what queue pairs stood on may go.
        self._memory.close()
        self._memory = Memory({})  # pyverbs does not look whether a domain is still open
        for device in self._devices.values():
            device.close()
        for sock in self._live.values():
            sock.close()
        self._live.clear()
        self._devices.clear()
        self._by_number.clear()
        self._epoll.close()

    # connecting

    def _open(self, peers: Sequence[Peer]) -> None:
        addresses = [peer.local_address for peer in peers]
        # Once for each port: finding one means to read its device's table of GIDs.
        found = {address: endpoint_of(address) for address in dict.fromkeys(addresses)}
        endpoints = [found[address] for address in addresses]
        for name, connections in Counter(endpoint.device for endpoint in endpoints).items():
            self._devices[name] = Device(name, connections)
        self._memory = Memory({name: device.domain for name, device in self._devices.items()})
        for index, (peer, endpoint) in enumerate(zip(peers, endpoints, strict=True)):
            device = self._devices[endpoint.device]
            connection = Connection(index, peer, endpoint, device, self._memory)
            self._connections.append(connection)
            self._by_number[endpoint.device, connection.pair.number] = connection

    def _introduce(self, peers: Sequence[Peer], sockets: Sequence[socket.socket], deadline_s: float) -> None:
        """Send and receive the parameters of the queue pairs; then wait until both ends can receive."""
        seal = self._greeting.seal
        mine = [connection.pair.mine.pack(seal) for connection in self._connections]
        theirs = swap(sockets, peers, mine, PARAMETERS_BYTES, deadline_s)
        for connection, raw in zip(self._connections, theirs, strict=True):
            parameters = Parameters.unpack(raw, seal, connection.peer)
            connection.pair.connect(parameters, self._qp_attributes)
        swap(sockets, peers, [READY] * len(peers), len(READY), deadline_s)

    def _sleep_on(self, descriptor: int, sleeper: Device | Connection) -> None:
        self._sleepers[descriptor] = sleeper
        self._epoll.register(descriptor, select.EPOLLIN)

    # working

    def _enqueue(self, index: int, work: Write | Message) -> None:
        connection = self._connections[index]
        if connection in self._live:
            connection.enqueue(work)
            self._unstarted[index] = connection

    def _start(self, connection: Connection) -> None:
        if connection not in self._live:
            return
        try:
            connection.start()
        except ConnectionLost as lost:
            self._lost(connection, str(lost))

    def _collect(self) -> None:
        """Take what the completion queues hold, and post what became possible."""
        touched: set[Connection] = set()
        for name, device in self._devices.items():
            for completion in device.poll():
                connection = self._by_number.get((name, completion.qp_num))
                if connection is None:
                    continue
                touched.add(connection)
                try:
                    self._completions += connection.take(completion)
                except ConnectionLost as lost:
                    self._lost(connection, str(lost))
        for connection in touched:
            self._start(connection)

    def _arm(self) -> None:
        """Let the next completion wake us; what came before the arming makes no event, so look again."""
        armed = [device.arm() for device in self._devices.values()]
        if any(armed):
            self._collect()

    def _sleep(self, timeout_s: float) -> None:
        heard = []
        for descriptor, _ in self._epoll.poll(timeout_s):
            sleeper = self._sleepers[descriptor]
            if isinstance(sleeper, Device):
                sleeper.take_event()
            else:
                heard.append(sleeper)
        # The last messages of a peer are in the queue before it closes its TCP connection.
        self._collect()
        for connection in heard:
            self._hear(connection)

    def _hear(self, connection: Connection) -> None:
        """The peer has closed its queue pair, with a report of what it had received, or its process has ended."""
        sock = self._live.get(connection)
        if sock is None:
            return
        try:
            words = sock.recv(BYE.size)
        except OSError as error:
            self._lost(connection, error.strerror or str(error))
        else:
            self._lost(connection, "it closed the connection", arrived_before(words))

    def _look(self) -> None:
        """Check that the endpoints are those of the connections' set-up, and that peers acknowledge."""
        self._next_look_s = monotonic() + LOOK_S
        for endpoint in {connection.endpoint for connection in self._live}:
            if why := why_lost(endpoint):
                for connection in [c for c in self._live if c.endpoint == endpoint]:
                    self._lost(connection, why)
        for connection in list(self._live):
            try:
                connection.look(self._qp_attributes.longest_retry_s)
            except ConnectionLost as lost:
                self._lost(connection, str(lost))

    def _lost(self, connection: Connection, why: str, arrived: int = 0) -> None:
        sock = self._live.pop(connection, None)
        if sock is None:
            return
        del self._by_number[connection.endpoint.device, connection.pair.number]
        self._completions += connection.end(arrived)
        self._completions.append(Completion(Event.CLOSED, connection.index, 0, why.encode()))
        del self._sleepers[sock.fileno()]
        self._epoll.unregister(sock)
        sock.close()
