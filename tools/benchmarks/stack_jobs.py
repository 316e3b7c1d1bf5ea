# SPDX-License-Identifier: Apache-2.0
"""The two ends of the cable in `tools/bench stack`: a bare loop, a reliable connection, TCP."""

from __future__ import annotations

import multiprocessing
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import kernel
from hipsnet.errors import HipsnetError
from hipsnet.node import namespace
from hipsnet.stack.ports import loop
from hipsnet.stack.ports.loop import Stack
from hipsnet.stack.roce.core import Core, load
from hipsnet.stack.xsk.sockets import RECEIVE_CHUNKS, SEND_FRAMES
from tools.benchmarks.two_nodes import INTERFACE, End

WRITE_BYTES, PING_BYTES, DEPTH = 1 << 20, 4096, 16
FRAME_BYTES = 14 + 20 + 8 + 12 + 4096 + 4  # the middle of a write: no RETH, no immediate
TCP_PORT = 29999
_FOLDER = Path(__file__).parent
_LATE_S = 0.3  # the receiver counts slightly longer than the sender sends

Job = Callable[[Core, End, End, Connection], Any]
_processes = multiprocessing.get_context("fork")


def library() -> Core:
    """The stack with the loops of this benchmark."""
    sources = (*loop.SOURCES, str(_FOLDER / "stack_loops.c"))
    headers = (*loop.HEADERS, str(_FOLDER / "stack_loops.h"))
    return load(kernel.cache_folder(), "stack-bench", sources, headers, loop.LIBRARIES)


# both ends


def both(ends: tuple[End, End], near: Job, far: Job) -> tuple[Any, Any]:
    """Run a job at each end in a separate process, with the connection ready; return their results."""
    library()
    here, there = _processes.Pipe()
    results, giver = _processes.Pipe(duplex=False)
    child = _processes.Process(target=_run, args=(far, ends[1], ends[0], there, giver))
    child.start()
    try:
        with namespace.inside(ends[0].namespace):
            mine = near(library(), ends[0], ends[1], here)
        if not results.poll(60):
            raise HipsnetError("the other end of the benchmark does not end")
        return mine, results.recv()
    finally:
        child.kill()
        child.join()


def _run(job: Job, end: End, other: End, pipe: Connection, giver: Connection) -> None:
    with namespace.inside(end.namespace):
        giver.send(job(library(), end, other, pipe))


def _begin(pipe: Connection, word: Any = None) -> Any:
    """Send a value to the other end, and wait for one from it."""
    pipe.send(word)
    return pipe.recv()


# the bare loop


@contextmanager
def _bare(made: Core, end: End) -> Iterator[Any]:
    ffi, lib = made
    memory, xsk = ffi.new("struct xsk_memory **"), ffi.new("struct xsk **")
    if lib.xsk_memory_open(memory, RECEIVE_CHUNKS, SEND_FRAMES, lib.RC_FRAME_MAX):
        raise HipsnetError("no memory for the benchmark")
    try:
        if lib.xsk_open(xsk, memory[0], INTERFACE.encode(), 0, 0):
            raise HipsnetError("no AF_XDP socket for the benchmark")
        endpoints = lib.xsk_open_map(bytes(end.endpoints))
        lib.xsk_refill(xsk[0])
        lib.xsk_join(xsk[0], endpoints, 0)
        yield xsk[0]
    finally:
        lib.xsk_close(xsk[0])
        lib.xsk_memory_close(memory[0])


def bare_sender(seconds: float) -> Job:
    """Send frames as fast as AF_XDP accepts them; return the number that arrived."""

    def job(made: Core, end: End, other: End, pipe: Connection) -> int:
        with _bare(made, end) as xsk:
            _begin(pipe)
            made.lib.bare_send(xsk, _frame(end, other), FRAME_BYTES, _after(seconds))
            received: int = pipe.recv()
            return received

    return job


def bare_receiver(seconds: float) -> Job:
    """Count received frames."""

    def job(made: Core, end: End, other: End, pipe: Connection) -> int:
        with _bare(made, end) as xsk:
            _begin(pipe)
            received = int(made.lib.bare_receive(xsk, _after(seconds + _LATE_S)))
            pipe.send(received)
            return received

    return job


def _frame(end: End, other: End) -> bytes:
    """The headers of a frame that the far end's program passes to the socket."""
    ethernet = _mac(other.mac) + _mac(end.mac) + b"\x08\x00"
    addresses = IPv4Address(end.address).packed + IPv4Address(other.address).packed
    ip = struct.pack("!BBHHHBBH", 0x45, 0, FRAME_BYTES - 14, 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", ip))
    check = 0xFFFF - (total % 0xFFFF)
    ip = ip[:10] + struct.pack("!H", check) + ip[12:]
    return (ethernet + ip + struct.pack("!4H", 50000, 4791, FRAME_BYTES - 34, 0)).ljust(64, b"\0")


def _after(seconds: float) -> int:
    return time.monotonic_ns() + int(seconds * 1e9)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


# the reliable connection


@contextmanager
def _flow(made: Core, end: End, other: End, pipe: Connection, size: int) -> Iterator[Any]:
    """A connected pair, as the C loops require it."""
    work = Stack(made)
    try:
        work.open_ports([end.port()])
        memory = np.zeros(size, np.uint8)
        key = work.register(memory)
        pair = work.pair(0, 0, 3, 64)
        pair.post_receives(64, 64)
        number, remote_key = _begin(pipe, (pair.number, key))
        pair.connect(
            0,
            time.monotonic_ns(),
            local_mac=_mac(end.mac),
            peer_mac=_mac(other.mac),
            local_ip=int(IPv4Address(end.address)),
            peer_ip=int(IPv4Address(other.address)),
            peer_qpn=number,
            send_psn=1,
            receive_psn=1,
            source_port=50000,
            path_mtu=4096,
            credits=True,
            window=512,
            ack_delay_ns=200_000,
        )
        _begin(pipe)
        buffer = made.ffi.from_buffer("u8[]", memory)
        yield made.ffi.new("struct flow *", (work.handle, pair.handle, buffer, size, remote_key, DEPTH))
    finally:
        work.close()


def flow_sender(seconds: float) -> Job:
    """Write over the connection continuously; return the number of writes."""

    def job(made: Core, end: End, other: End, pipe: Connection) -> int:
        with _flow(made, end, other, pipe, WRITE_BYTES) as flow:
            return int(made.lib.flow_send(flow, _after(seconds)))

    return job


def flow_receiver(seconds: float) -> Job:
    """Receive the writes; return their number."""

    def job(made: Core, end: End, other: End, pipe: Connection) -> int:
        with _flow(made, end, other, pipe, WRITE_BYTES) as flow:
            return int(made.lib.flow_receive(flow, _after(seconds + _LATE_S)))

    return job


def stack_ping(pings: int, begins: bool) -> Job:
    """Round-trip time in seconds over the connection."""

    def job(made: Core, end: End, other: End, pipe: Connection) -> float:
        with _flow(made, end, other, pipe, PING_BYTES) as flow:
            took = made.lib.flow_ping(flow, pings, begins)
            if not took:
                raise HipsnetError("the stack's round trips stopped")
            return int(took) / 1e9 / pings

    return job


# TCP


def tcp_ping(pings: int, begins: bool) -> Job:
    """Round-trip time in seconds over TCP."""

    def job(made: Core, end: End, other: End, pipe: Connection) -> float:
        with _tcp(end, other, pipe, begins) as sock:
            memory = np.zeros(PING_BYTES, np.uint8)
            took = made.lib.tcp_ping(
                sock.fileno(), made.ffi.from_buffer("u8[]", memory), PING_BYTES, pings, begins
            )
            if not took:
                raise HipsnetError("the round trips over TCP stopped")
            return int(took) / 1e9 / pings

    return job


@contextmanager
def _tcp(end: End, other: End, pipe: Connection, begins: bool) -> Iterator[socket.socket]:
    if begins:
        _begin(pipe)
        sock = socket.create_connection((other.address, TCP_PORT), timeout=10)
    else:
        with socket.create_server((end.address, TCP_PORT)) as listener:
            _begin(pipe)
            sock, _ = listener.accept()
    with sock:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock
