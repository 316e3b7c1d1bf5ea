# SPDX-License-Identifier: Apache-2.0
"""TCP, UDP and ping between all servers, over several hops, forwarded by XDP alone."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipsnet.node.forwarding import read_counters
from hipsnet.node.namespace import inside
from hipsnet.topology import Fabric, Server, paths
from tests.lab.rig import BCUBE_3_2, Lab

MakeLab = Callable[..., Lab]

TCP_PORT, UDP_PORT = 4000, 4001
FABRICS = {
    "BCube(3,2)": BCUBE_3_2,
    "torus 4x4": {"kind": "torus", "dims": [4, 4]},
    "torus 2x3x2": {"kind": "torus", "dims": [2, 3, 2]},
}
# Longer than one frame of 9000 bytes: what is cut into several must arrive in several.
MESSAGE = bytes(range(256)) * 100
DATAGRAM = MESSAGE[:8000]


@pytest.fixture(scope="module", params=FABRICS)
def lab(request: pytest.FixtureRequest, make_shared_lab: MakeLab) -> Lab:
    """A lab without kernel forwarding: frames that arrive two hops away were forwarded by XDP."""
    made = make_shared_lab(FABRICS[request.param], link={"rate": "10Gbit/s"})
    made.provision()
    for server in made.load()[1].servers:
        with inside(made.namespace(server.name)):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
    return made


def forwarded(lab: Lab, fabric: Fabric) -> dict[str, int]:
    """Frames that XDP forwarded, by server."""
    return {s.name: int(read_counters(lab.name, s.name)["forwarded"].sum()) for s in fabric.servers}


def dropped(lab: Lab, fabric: Fabric) -> dict[tuple[str, str], int]:
    """Frames that XDP dropped, by server and reason."""
    found = {}
    for server in fabric.servers:
        counters: Any = read_counters(lab.name, server.name)
        for name in counters.dtype.names:
            if name.startswith("drop"):
                found[server.name, name] = int(counters[name].sum())
    assert found
    return found


def addresses(server: Server) -> list[IPv4Address]:
    """Every address of a server: identity and ports."""
    return [server.identity, *(port.address.ip for port in server.ports if port.address)]


@contextmanager
def listening(lab: Lab, fabric: Fabric, kind: int, port: int) -> Iterator[dict[str, socket.socket]]:
    """A socket on every server, bound to all of its addresses."""
    with ExitStack() as stack:
        found = {}
        for server in fabric.servers:
            with inside(lab.namespace(server.name)):
                found[server.name] = stack.enter_context(socket.socket(socket.AF_INET, kind))
            found[server.name].settimeout(5)
            found[server.name].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found[server.name].bind(("0.0.0.0", port))
            if kind == socket.SOCK_STREAM:
                found[server.name].listen(64)
        yield found


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes."""
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        assert part
        parts += part
    return parts


def test_every_path_passes_between_all_pairs(lab: Lab) -> None:
    fabric = lab.load()[1]
    before = forwarded(lab, fabric)
    report = lab.ping()
    ways = [path for a in fabric.servers for b in fabric.servers if a is not b
            for path in paths(fabric, a.name, b.name)]  # fmt: skip
    assert report["paths"] == report["reached"] == report["answered"] == len(ways)
    after = forwarded(lab, fabric)
    through = dict.fromkeys(before, 0)
    for path in ways:
        for hop in path.hops[:-1]:
            through[hop.receiver.node] += 1
    for name, frames in through.items():  # at least the requests; replies are additional
        assert after[name] - before[name] >= frames


def test_tcp_passes_between_all_pairs(lab: Lab) -> None:
    fabric = lab.load()[1]
    before = sum(forwarded(lab, fabric).values())
    with listening(lab, fabric, socket.SOCK_STREAM, TCP_PORT) as servers:
        for source in fabric.servers:
            with inside(lab.namespace(source.name)):
                for target in fabric.servers:
                    for address in addresses(target) if target is not source else ():
                        with socket.create_connection((str(address), TCP_PORT), timeout=5) as sender:
                            receiver, _ = servers[target.name].accept()
                            with receiver:
                                receiver.settimeout(5)
                                sender.sendall(MESSAGE)
                                assert receive(receiver, len(MESSAGE)) == MESSAGE
                                receiver.sendall(MESSAGE[::-1])
                                assert receive(sender, len(MESSAGE)) == MESSAGE[::-1]
    assert sum(forwarded(lab, fabric).values()) > before


def test_udp_passes_between_all_pairs(lab: Lab) -> None:
    fabric = lab.load()[1]
    before = sum(forwarded(lab, fabric).values())
    with listening(lab, fabric, socket.SOCK_DGRAM, UDP_PORT) as servers:
        for source in fabric.servers:
            for target in fabric.servers:
                for address in addresses(target) if target is not source else ():
                    servers[source.name].sendto(DATAGRAM, (str(address), UDP_PORT))
                    data, _ = servers[target.name].recvfrom(10_000)
                    assert data == DATAGRAM
    assert sum(forwarded(lab, fabric).values()) > before


def test_servers_lose_nothing_on_the_way(lab: Lab) -> None:
    """All of a large transfer over the longest path is forwarded, and nothing dropped."""
    fabric = lab.load()[1]
    source = fabric.servers[0]
    way = max(
        (path for target in fabric.servers[1:] for path in paths(fabric, source.name, target.name)),
        key=lambda path: len(path.hops),
    )
    before = dropped(lab, fabric)
    payload = np.arange(1 << 20, dtype=np.uint32).tobytes()
    with listening(lab, fabric, socket.SOCK_STREAM, TCP_PORT) as servers:
        with inside(lab.namespace(way.source)):
            sender = socket.create_connection((str(way.destination), TCP_PORT), timeout=5)
        with sender:
            receiver, _ = servers[way.target].accept()
            with receiver:
                receiver.settimeout(5)
                assert _exchange(sender, receiver, payload) == payload
    assert dropped(lab, fabric) == before


def _exchange(sender: socket.socket, receiver: socket.socket, payload: bytes) -> bytes:
    """Alternate sending and receiving, since both ends are in this thread."""
    sender.setblocking(False)
    sent, received = 0, bytearray()
    while len(received) < len(payload):
        if sent < len(payload):
            with suppress(BlockingIOError):
                sent += sender.send(payload[sent : sent + 65536])
        received += receiver.recv(1 << 20)
    return bytes(received)
