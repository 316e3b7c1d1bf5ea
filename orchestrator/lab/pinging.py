# SPDX-License-Identifier: Apache-2.0
"""Echo requests between all pairs of servers of the lab, over every disjoint path, answered by the kernel."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from hipsnet.node.namespace import inside
from hipsnet.topology import Fabric, Path, paths
from orchestrator.lab.namespaces import namespace_name, require

ATTEMPTS = 3
_WAIT_S = 0.5
_WINDOW = 1024
_RECEIVE_BYTES = 4 << 20
_ETHERTYPE_IP, _TTL = 0x0800, 64
_REQUEST, _REPLY = 8, 0
_SO_RCVBUFFORCE = 33
_ICMP = struct.Struct("!BBHHHI")


@dataclass(frozen=True)
class Answer:
    """The result of one path: `reached` if a request arrived, after `attempts`.

    `rtt_us` is None if no reply came. A reply takes the way that its sender's routes choose: one that is lost
    says nothing about this path, and the way that it took is asked about on its own.
    """

    path: Path
    reached: bool
    attempts: int
    rtt_us: float | None


@dataclass
class _Flight:
    """The state of one path's requests in flight."""

    frame: bytes
    attempts: int = 0
    sent_ns: int = 0
    arrived: bool = False
    rtt_us: float | None = None


@dataclass
class _Server:
    """A server's sockets, opened inside its namespace: `sender` sends frames, `receiver` receives ICMP."""

    name: str
    sender: socket.socket
    receiver: socket.socket


def ping(fabric: Fabric) -> list[Answer]:
    """Send a request along every path between every ordered pair of servers; one answer per path.

    The frame itself names the next hop, the source's decision; the destination address does the rest.
    """
    names = [server.name for server in fabric.servers]
    require(fabric.name, names)
    tried = [path for a in names for b in names if a != b for path in paths(fabric, a, b)]
    flights = [_Flight(_frame(number, path)) for number, path in enumerate(tried)]
    with _sockets(fabric) as servers, selectors.DefaultSelector() as selector:
        for server in servers.values():
            selector.register(server.receiver, selectors.EVENT_READ, server)
        for _ in range(ATTEMPTS):
            waiting = [number for number, flight in enumerate(flights) if flight.rtt_us is None]
            for start in range(0, len(waiting), _WINDOW):
                _volley(waiting[start : start + _WINDOW], tried, flights, servers, selector)
    return [
        Answer(path, flight.arrived, flight.attempts, flight.rtt_us)
        for path, flight in zip(tried, flights, strict=True)
    ]


@contextmanager
def _sockets(fabric: Fabric) -> Iterator[dict[str, _Server]]:
    with ExitStack() as stack:
        servers = {}
        for server in fabric.servers:
            with inside(namespace_name(fabric.name, server.name)):
                sender = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
                receiver = stack.enter_context(
                    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
                )
            receiver.setblocking(False)
            receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
            servers[server.name] = _Server(server.name, sender, receiver)
        yield servers


def _volley(
    numbers: Sequence[int],
    tried: Sequence[Path],
    flights: Sequence[_Flight],
    servers: dict[str, _Server],
    selector: selectors.BaseSelector,
) -> None:
    """Send one request on each of these paths and wait for the answers."""
    open_numbers = set(numbers)
    for number in numbers:
        path, flight = tried[number], flights[number]
        flight.attempts += 1
        flight.sent_ns = time.perf_counter_ns()
        try:
            servers[path.source].sender.sendto(flight.frame, (path.hops[0].sender.name, 0))
        except OSError:  # the port is down: no frame leaves it
            continue
        if number % 32 == 0:
            _receive(selector.select(0), tried, flights, open_numbers)
    deadline = time.monotonic() + _WAIT_S
    while open_numbers and (left := deadline - time.monotonic()) > 0:
        _receive(selector.select(left), tried, flights, open_numbers)


def _receive(
    events: Iterable[tuple[selectors.SelectorKey, int]],
    tried: Sequence[Path],
    flights: Sequence[_Flight],
    open_numbers: set[int],
) -> None:
    """Process received frames: requests show how far a path reaches, replies complete it."""
    for key, _ in events:
        server: _Server = key.data
        while True:
            try:
                packet = server.receiver.recv(256)
            except BlockingIOError:
                break
            header = 4 * (packet[0] & 0x0F)
            if len(packet) < header + _ICMP.size:
                continue
            kind, _, _, process, _, number = _ICMP.unpack_from(packet, header)
            if process != _process() or number >= len(flights):
                continue
            flight, path = flights[number], tried[number]
            if kind == _REQUEST and server.name == path.target:
                flight.arrived = True
            elif kind == _REPLY and server.name == path.source and flight.rtt_us is None:
                flight.arrived = True
                flight.rtt_us = (time.perf_counter_ns() - flight.sent_ns) / 1000
                open_numbers.discard(number)


def _process() -> int:
    return os.getpid() & 0xFFFF


def _frame(number: int, path: Path) -> bytes:
    """An Ethernet frame with an echo request that carries the path's number."""
    first = path.hops[0]
    source = first.sender.address
    assert source is not None
    icmp = _ICMP.pack(_REQUEST, 0, 0, _process(), number & 0xFFFF, number)
    icmp = icmp[:2] + struct.pack("!H", _checksum(icmp)) + icmp[4:]
    total = 20 + len(icmp)
    ip = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        total,
        0,
        0,
        _TTL,
        socket.IPPROTO_ICMP,
        0,
        source.ip.packed,
        path.destination.packed,
    )
    ip = ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:]
    macs = bytes.fromhex((first.receiver.mac + first.sender.mac).replace(":", ""))
    return macs + struct.pack("!H", _ETHERTYPE_IP) + ip + icmp


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF
