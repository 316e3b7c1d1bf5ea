# SPDX-License-Identifier: Apache-2.0
"""Engines over real TCP connections: all ranks in this process, one thread each."""

from __future__ import annotations

import fcntl
import random
import socket
import struct
import termios
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from hipsnet.collective.algorithms import Algorithm
from hipsnet.engine.engine import Call as EngineCall
from hipsnet.engine.engine import Engine, Limits, Piece, Reason, State
from hipsnet.engine.library import library
from hipsnet.engine.wire.tcp import TcpWire
from hipsnet.transport.interface import Peer
from tests.engine.world import Call, plan_of, routes_of

BOUND_S = 60.0
LIMITS = Limits(5.0, 10.0)
HIPS = Algorithm()


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


@contextmanager
def job(shape: str, limits: Limits = LIMITS, absent: tuple[int, ...] = ()) -> Iterator[tuple[list[Any], Any]]:
    """The engines of a fabric by rank (of those that are absent None), and all sockets by (rank, connection)."""
    routes = routes_of(shape, HIPS)
    sockets: dict[tuple[int, int], socket.socket] = {}
    for rank, mine in enumerate(routes):
        for (peer, port, theirs), number in mine.items():
            if (rank, number) not in sockets:
                sockets[rank, number], sockets[peer, routes[peer][rank, theirs, port]] = connected()
    engines: list[Any] = []
    for rank, mine in enumerate(routes):
        peers = [Peer(peer, port, "", theirs, "") for peer, port, theirs in mine]
        if rank in absent:
            engines.append(None)
            continue
        descriptors = [sockets[rank, number].detach() for number in range(len(mine))]
        engines.append(Engine(TcpWire(descriptors, limits.message_max), rank, len(routes), peers, limits))
    try:
        yield engines, sockets
    finally:
        with ThreadPoolExecutor(len(engines)) as threads:
            list(threads.map(lambda engine: engine and engine.close(), engines))
        for end in sockets.values():
            end.close()


def on_all(engines: list[Any], body: Callable[[int, Engine], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(engines)) as threads:
        every = [threads.submit(body, rank, engine) for rank, engine in enumerate(engines) if engine]
        return [one.result(BOUND_S) for one in every]


@dataclass
class Submitted:
    """A call and its vector."""

    call: EngineCall
    array: np.ndarray


def submit(shape: str, rank: int, engine: Engine, call: Call, is_async: bool = False) -> Submitted:
    most = LIMITS.slot_bytes // call.dtype.itemsize
    plan = plan_of(shape, HIPS, rank, call.count, call.dtype.itemsize, most)
    array = call.vector(rank)
    made = engine.submit(plan, [Piece(array)], call.dtype, call.operation, purpose=7, is_async=is_async)
    return Submitted(made, array)


def test_calls_that_are_awaited_immediately() -> None:
    shape = "bcube(2,2)"
    calls = [Call(count, seed=n) for n, count in enumerate((1, 100, 5_000, 300_000, 17, 300_001, 0))]

    def body(rank: int, engine: Engine) -> list[bytes]:
        found = []
        for call in calls:
            work = submit(shape, rank, engine, call)
            assert engine.wait(work.call, BOUND_S) == State.DONE
            found.append(work.array.tobytes())
        return found

    with job(shape) as (engines, _):
        for found in on_all(engines, body):
            assert found == [call.result(4).tobytes() for call in calls]


def test_many_calls_in_flight_without_a_wait() -> None:
    """The progress threads alone do the work, of several large calls and small ones at once."""
    shape, order = "bcube(2,2)", random.Random(1)
    calls = [Call(order.choice((3, 900, 40_000, 200_000)), seed=n) for n in range(24)]

    def body(rank: int, engine: Engine) -> list[bytes]:
        work = [submit(shape, rank, engine, call, is_async=True) for call in calls]
        end = threading.Event()
        while any(engine.poll(one.call) == State.ACTIVE for one in work):
            assert engine.failure() is None
            end.wait(0.005)
        return [one.array.tobytes() for one in work]

    with job(shape) as (engines, _):
        for found in on_all(engines, body):
            assert found == [call.result(4).tobytes() for call in calls]


def test_a_rank_that_closes_is_named_by_its_neighbours() -> None:
    shape = "torus(3)"

    def body(rank: int, engine: Engine) -> tuple[int, int]:
        work = submit(shape, rank, engine, Call(1000))
        assert engine.wait(work.call, BOUND_S) == State.FAILED
        failure = engine.failure()
        return failure.reason, failure.culprit

    with job(shape, absent=(2,)) as (engines, sockets):
        for (rank, _), end in sockets.items():
            if rank == 2:
                end.close()
        assert set(on_all(engines, body)) == {(Reason.CLOSED, 2)}


def test_an_engine_that_fails_says_why() -> None:
    shape = "torus(3)"

    def body(rank: int, engine: Engine) -> tuple[int, int, str]:
        work = submit(shape, rank, engine, Call(200_000))
        if rank == 1:
            engine.fail("KeyboardInterrupt")
        assert engine.wait(work.call, BOUND_S) == State.FAILED
        failure = engine.failure()
        return failure.reason, failure.culprit, library().ffi.string(failure.words).decode()

    with job(shape) as (engines, _):
        assert set(on_all(engines, body)) == {(Reason.LOCAL, 1, "KeyboardInterrupt")}


HEADER = struct.Struct("<B3xIIIQ")
STREAMS = {
    "unknown frame": HEADER.pack(7, 0, 0, 0, 0),
    "a message too long": HEADER.pack(1, 0, 1 << 20, 0, 0),
    "no such region": HEADER.pack(0, 4000, 8, 0, 0) + bytes(8),
    "region 0": HEADER.pack(0, 0, 8, 0, 0) + bytes(8),
    "beyond every region": HEADER.pack(0, 0xFFFFFFFF, 8, 0, 0),
    "out of bounds": HEADER.pack(0, 1, 8, 0, (16 * 256 << 10) - 7) + bytes(8),
    "an offset that wraps": HEADER.pack(0, 1, 16, 0, 2**64 - 8) + bytes(16),
    "longer than the region": HEADER.pack(0, 1, 0xFFFFFFFF, 0, 0),
    "nonsense in a message": HEADER.pack(1, 0, 3, 0, 0) + b"\xff\xff\xff",
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("cut", [0, 1, 23])
def test_a_stream_that_breaks_the_protocol_ends_the_connection(stream: bytes, cut: int) -> None:
    """In one piece, and in two."""
    with job("torus(2)", absent=(1,)) as (engines, sockets):
        engine, hostile = engines[0], sockets[1, 0]
        work = submit("torus(2)", 0, engine, Call(10))
        hostile.sendall(stream[:cut])
        assert engine.wait(work.call, 0.01) == State.ACTIVE
        hostile.sendall(stream[cut:])
        assert engine.wait(work.call, BOUND_S) == State.FAILED
        assert engine.failure().culprit == 1


def test_random_streams_cause_no_memory_error() -> None:
    order = random.Random(5)
    for _ in range(150):
        with job("torus(2)", Limits(0.05, 0.1), absent=(1,)) as (engines, sockets):
            work = submit("torus(2)", 0, engines[0], Call(order.choice((10, 5000))))
            for _ in range(order.randrange(1, 6)):
                body = order.randbytes(order.choice((0, 1, 5, 21, 300)))
                if body and order.random() < 0.7:
                    body = bytes([order.randrange(7)]) + body[1:]
                words = HEADER.pack(
                    order.choice((0, 1, 1, 1)), order.randrange(4), len(body), order.getrandbits(32), 0
                )
                sockets[1, 0].sendall(words + body)
            assert engines[0].wait(work.call, BOUND_S) == State.FAILED


def test_engines_leave_no_descriptor_and_no_thread() -> None:
    def body(rank: int, engine: Engine) -> None:
        work = submit("torus(2)", rank, engine, Call(10), is_async=True)
        assert engine.wait(work.call, BOUND_S) == State.DONE

    def open_now() -> tuple[int, int]:
        status = Path("/proc/self/status").read_text()
        return len(list(Path("/proc/self/fd").iterdir())), int(status.split("Threads:")[1].split()[0])

    with job("torus(2)") as (engines, _):
        on_all(engines, body)
    before = open_now()
    for _ in range(20):
        with job("torus(2)") as (engines, _):
            on_all(engines, body)
    assert open_now()[0] == before[0]
    # A joined thread of Python may still be about to exit.
    end_s = monotonic() + BOUND_S
    while open_now()[1] > before[1]:
        assert monotonic() < end_s, f"{open_now()[1]} threads, {before[1]} before"
        sleep(0.01)


def test_a_wait_that_times_out_leaves_the_call_in_flight() -> None:
    with job("torus(2)") as (engines, _):
        work = submit("torus(2)", 0, engines[0], Call(10))
        assert engines[0].wait(work.call, 0.02) == State.ACTIVE
        late = submit("torus(2)", 1, engines[1], Call(10))
        assert engines[1].wait(late.call, BOUND_S) == State.DONE
        assert engines[0].wait(work.call, BOUND_S) == State.DONE
        assert (work.array == np.asarray(Call(10).result(2))).all()


LARGE = Call(60_000)  # int64: segments of 240 kB


def receive(end: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count and (part := end.recv(count - len(parts))):
        parts += part
    return parts


def frames(end: socket.socket) -> Iterator[tuple[int, bytes]]:
    """(kind, payload) of each frame; 0 is a write, 1 a message."""
    while header := receive(end, HEADER.size):
        kind, _, count, _, _ = HEADER.unpack(header)
        yield kind, receive(end, count)


@contextmanager
def hostile_peer(buffer: int = 1 << 20) -> Iterator[tuple[Engine, socket.socket, socket.socket, Any]]:
    """An engine with a call under way, the peer's socket, a copy of the engine's own one, and the call."""
    near, far = connected()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    far.settimeout(BOUND_S)
    with near.dup() as copy, far:
        peers = [Peer(peer, port, "", theirs, "") for peer, port, theirs in routes_of("torus(2)", HIPS)[0]]
        engine = Engine(TcpWire([near.detach()], LIMITS.message_max), 0, 2, peers, LIMITS)
        try:
            yield engine, far, copy, submit("torus(2)", 0, engine, LARGE, is_async=True)
        finally:
            far.close()
            engine.close()


def until(condition: Callable[[], bool]) -> None:
    end_s = monotonic() + BOUND_S
    while not condition():
        assert monotonic() < end_s
        sleep(0.005)


def queued(end: socket.socket, request: int) -> int:
    return struct.unpack("i", fcntl.ioctl(end, request, bytes(4)))[0]


def test_no_write_lands_in_the_array_of_a_call_that_has_failed() -> None:
    """The header and a part of the data arrive before the failure, the rest after it."""
    key, count = 2, 10_000  # the first array has the key after that of the slots
    with hostile_peer() as (engine, peer, ours, work):
        array = work.array.view(np.uint8)
        peer.sendall(HEADER.pack(0, key, count, 0, 0) + b"\xaa" * (count // 2))
        until(lambda: bool(array[count // 2 - 1] == 0xAA))
        engine.fail("KeyboardInterrupt")
        assert engine.wait(work.call, BOUND_S) == State.FAILED
        array[:] = 1
        peer.sendall(b"\xaa" * (count // 2) + HEADER.pack(0, key, count, 0, 0) + b"\xaa" * count)
        until(lambda: not queued(peer, termios.TIOCOUTQ) and not queued(ours, termios.FIONREAD))
        assert (array == 1).all()


def test_a_write_that_has_begun_is_sent_as_it_was_before_the_failure() -> None:
    """Its peer may still complete a call with it; a program may reuse the array at once."""
    with hostile_peer(8192) as (engine, peer, _, work):
        sent = frames(peer)
        for _ in range(2):  # HELLO and READY, as if the peer had sent the same
            _, message = next(sent)
            peer.sendall(HEADER.pack(1, 0, len(message), 0, 0) + message)
        until(lambda: len(peer.recv(1 << 16, socket.MSG_PEEK)) > 2000)
        engine.fail("KeyboardInterrupt")
        assert engine.wait(work.call, BOUND_S) == State.FAILED
        work.array[:] = 99
        writes = []
        for kind, data in sent:
            if kind == 0:
                writes.append(np.frombuffer(data, np.int64))
            elif data[0] == 5:  # ABORT, behind the write
                break
        assert writes and all(values.size and values.max() < 3 for values in writes)


ABORT, LOCAL = 5, 7


@pytest.mark.parametrize("leaves_unread", [True, False], ids=["reset", "broken pipe"])
def test_an_abort_is_read_before_the_close_that_follows_it(leaves_unread: bool) -> None:
    """The engine notices the close when it sends: the peer's kernel has reset the connection, or does so then."""
    near, far = connected()
    peers = [Peer(peer, port, "", theirs, "") for peer, port, theirs in routes_of("torus(2)", HIPS)[0]]
    engine = Engine(TcpWire([near.detach()], LIMITS.message_max), 0, 2, peers, LIMITS)
    try:
        hello = receive(far, HEADER.size + 21)
        if not leaves_unread:
            far.sendall(hello)
        words = b"it was rank 1"
        abort = bytes([ABORT]) + struct.pack("<iIIIQQ", 1, 1, 0xFFFF, LOCAL, 0, 0) + bytes(44) + words
        if leaves_unread:
            far.sendall(hello)
            work = submit("torus(2)", 0, engine, Call(5))  # its message stays unread
            until(lambda: queued(far, termios.FIONREAD) > 0)
        far.sendall(HEADER.pack(1, 0, len(abort), 0, 0) + abort)
        until(lambda: not queued(far, termios.TIOCOUTQ))
        far.close()
        if not leaves_unread:
            work = submit("torus(2)", 0, engine, Call(5))
        assert engine.wait(work.call, BOUND_S) == State.FAILED
        failure = engine.failure()
        assert (failure.reason, failure.culprit) == (Reason.LOCAL, 1)
        assert library().ffi.string(failure.words) == words
    finally:
        engine.close()
