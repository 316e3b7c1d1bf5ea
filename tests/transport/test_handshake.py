# SPDX-License-Identifier: Apache-2.0
"""Only members of a job are connected, whatever else connects to its port addresses."""

from __future__ import annotations

import multiprocessing
import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from hipsnet.errors import TransportError
from hipsnet.transport import handshake
from hipsnet.transport.greeting import (
    GREETING_BYTES,
    HELLO,
    MAGIC,
    PROTOCOL_VERSION,
    End,
    Greeting,
    Role,
    Sender,
    Session,
    pack_hello,
    unpack_hello,
)
from hipsnet.transport.handshake import HALF_OPEN, connect_all
from hipsnet.transport.interface import Peer
from hipsnet.transport.tcp.transport import TcpTransport

CALLER, LISTENER, STRANGER = "127.84.0.1", "127.84.0.2", "127.84.0.9"
PORT, BOUND_S = 29483, 20.0
TOKEN = "a token of this job"
MINE, ITS = Greeting(1, 2, "same", TOKEN), Greeting(0, 2, "same", TOKEN)
TO_CALLER, TO_LISTENER = Peer(0, 3, LISTENER, 5, CALLER), Peer(1, 5, CALLER, 3, LISTENER)

Sockets = Future[list[socket.socket]]


@contextmanager
def listening(timeout_s: float = BOUND_S) -> Iterator[Sockets]:
    """Rank 1 waits for rank 0; its sockets are closed afterwards."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(connect_all, MINE, [TO_CALLER], PORT, timeout_s)
        yield future
        if not future.exception(2 * BOUND_S):
            for sock in future.result():
                sock.close()


def dial(source: str = CALLER) -> socket.socket:
    """Connect to rank 1 from an address, as soon as it listens."""
    deadline = time.monotonic() + BOUND_S
    while True:
        sock = socket.socket()
        sock.settimeout(BOUND_S)
        sock.bind((source, 0))
        try:
            sock.connect((LISTENER, PORT))
            return sock
        except ConnectionRefusedError:
            sock.close()
            assert time.monotonic() < deadline
            time.sleep(0.01)


def read(sock: socket.socket, size: int) -> bytes:
    """`size` bytes, or fewer if the stream ends."""
    raw = b""
    while len(raw) < size:
        try:
            more = sock.recv(size - len(raw))
        except ConnectionResetError:
            break
        if not more:
            break
        raw += more
    return raw


def join(expected: Sockets) -> None:
    """Rank 0 connects, and both ends have the same connection."""
    (sock,) = connect_all(ITS, [TO_LISTENER], PORT, BOUND_S)
    (other,) = expected.result(BOUND_S)
    assert sock.getsockname() == other.getpeername()
    assert other.getsockname() == (LISTENER, PORT)
    sock.close()


def greet(sock: socket.socket, to: Peer = TO_LISTENER, nonce: bytes = b"n" * 16) -> bytes:
    """Connect as rank 0 and send its greeting; return the greeting."""
    sock.sendall(pack_hello(nonce))
    version, other = unpack_hello(read(sock, HELLO.size))
    assert version == PROTOCOL_VERSION
    greeting = ITS.pack(Role.CALLER, to, session(sock, nonce, other))
    sock.sendall(greeting)
    return greeting


def session(sock: socket.socket, mine: bytes, other: bytes) -> Session:
    """The session of a connection that was called from here."""
    near, far = sock.getsockname(), sock.getpeername()
    return Session(End(near[0], near[1], mine), End(far[0], far[1], other))


def test_a_replayed_greeting_is_refused() -> None:
    with listening() as first, dial() as sock:
        recorded = greet(sock)
        assert len(read(sock, GREETING_BYTES)) == GREETING_BYTES  # it was good
        first.result(BOUND_S)
    with listening() as waiting:
        with dial() as sock:
            sock.sendall(pack_hello(b"n" * 16) + recorded)
            assert len(read(sock, HELLO.size + 1)) == HELLO.size  # a nonce, and the end
        join(waiting)


SESSION = Session(End(CALLER, 40000, b"c" * 16), End(LISTENER, PORT, b"l" * 16))


@pytest.mark.parametrize(
    "other",
    [
        replace(SESSION, caller=replace(SESSION.caller, address=STRANGER)),
        replace(SESSION, caller=replace(SESSION.caller, tcp_port=40001)),
        replace(SESSION, caller=replace(SESSION.caller, nonce=b"x" * 16)),
        replace(SESSION, listener=replace(SESSION.listener, address=STRANGER)),
        replace(SESSION, listener=replace(SESSION.listener, tcp_port=PORT + 1)),
        replace(SESSION, listener=replace(SESSION.listener, nonce=b"x" * 16)),
        Session(SESSION.listener, SESSION.caller),
    ],
)
def test_a_greeting_of_another_connection_is_a_strangers(other: Session) -> None:
    raw = ITS.pack(Role.CALLER, TO_LISTENER, SESSION)
    assert MINE.unpack(raw, Role.CALLER, SESSION) == Sender(0, 5, 1, 3)
    with pytest.raises(PermissionError):
        MINE.unpack(raw, Role.CALLER, other)
    with pytest.raises(PermissionError):
        MINE.unpack(raw, Role.LISTENER, SESSION)


def test_a_relayed_greeting_is_refused() -> None:
    """A machine in between answers rank 0 and passes every byte on to rank 1, both ways, from rank 0's address."""
    with listening() as waiting, ThreadPoolExecutor(1) as pool, socket.socket() as trap:
        trap.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trap.bind((LISTENER, PORT + 1))
        trap.listen()
        fooled = pool.submit(connect_all, ITS, [TO_LISTENER], PORT + 1, 2.0)
        near, _ = trap.accept()
        with near, dial() as far:
            near.settimeout(BOUND_S)
            far.sendall(read(near, HELLO.size))
            near.sendall(read(far, HELLO.size))
            far.sendall(read(near, GREETING_BYTES))
            assert read(far, 1) == b""
        trap.close()
        with pytest.raises(TransportError, match="waited 2 s for rank 1"):
            fooled.result(BOUND_S)
        join(waiting)


def test_a_connection_between_other_ports_is_refused() -> None:
    with listening() as waiting:
        wrong_port, wrong_remote = replace(TO_LISTENER, port=4), replace(TO_LISTENER, remote_port=4)
        for wrong in (wrong_port, wrong_remote, replace(TO_LISTENER, rank=7)):
            with dial() as sock:
                greet(sock, wrong)
                assert read(sock, 1) == b""
        join(waiting)


def test_an_address_of_no_peer_is_dropped_without_a_reply() -> None:
    with listening() as waiting:
        with dial(STRANGER) as sock:
            assert read(sock, 1) == b""
        join(waiting)


def test_one_byte_does_not_make_the_listener_spin() -> None:
    """The byte is read once; the listener wakes up again only for more bytes."""

    def wait() -> int:
        reads = 0

        def count(frame: object, event: str, called: object) -> None:
            nonlocal reads
            reads += event == "c_call" and getattr(called, "__name__", "") == "recv"

        sys.setprofile(count)
        try:
            with pytest.raises(TransportError, match="waited 1 s for rank 0"):
                connect_all(MINE, [TO_CALLER], PORT, 1.0)
        finally:
            sys.setprofile(None)
        return reads

    with ThreadPoolExecutor(1) as pool:
        reads = pool.submit(wait)
        with dial() as sock:
            sock.sendall(MAGIC[:1])
            assert 1 <= reads.result(BOUND_S) <= 2


def test_a_flood_of_half_open_connections_is_bounded_and_a_member_gets_through() -> None:
    with listening() as waiting:
        flood = [dial() for _ in range(2 * HALF_OPEN)]
        join(waiting)
        dropped = 0
        for sock in flood:
            sock.setblocking(False)
            try:
                dropped += sock.recv(1) == b""
            except ConnectionResetError:
                dropped += 1
            except BlockingIOError:
                pass
            sock.close()
    assert dropped >= HALF_OPEN


def test_a_half_open_connection_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "GREETING_S", 0.2)
    with listening() as waiting:
        with dial() as sock:
            assert read(sock, 1) == b""
        join(waiting)


def test_a_caller_of_another_version_is_reported_when_its_rank_is_missing() -> None:
    with listening(1.0) as waiting:
        with dial() as sock:
            sock.sendall(HELLO.pack(MAGIC, PROTOCOL_VERSION + 1, b"n" * 16))
            assert unpack_hello(read(sock, HELLO.size))[0] == PROTOCOL_VERSION
            assert read(sock, 1) == b""
        said = str(waiting.exception(BOUND_S))
    assert f"rank 0 ({CALLER}) at level 3 [it speaks version {PROTOCOL_VERSION + 1} of the protocol" in said


def test_a_listener_of_another_version_is_named() -> None:
    with socket.socket() as listener, ThreadPoolExecutor(1) as pool:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LISTENER, PORT))
        listener.listen()
        calling = pool.submit(connect_all, ITS, [TO_LISTENER], PORT, BOUND_S)
        sock, _ = listener.accept()
        with sock:
            sock.sendall(HELLO.pack(MAGIC, 2, b"n" * 16))
            with pytest.raises(
                TransportError, match=f"it speaks version 2 of .*, and rank 0 {PROTOCOL_VERSION}"
            ):
                calling.result(BOUND_S)


def test_another_job_is_named_on_both_sides() -> None:
    other = replace(ITS, configuration="different")
    with listening() as waiting:
        with pytest.raises(TransportError, match="configuration 'different' here, 'same' there"):
            connect_all(other, [TO_LISTENER], PORT, BOUND_S)
        with pytest.raises(TransportError, match="configuration 'same' here, 'different' there"):
            waiting.result(BOUND_S)


@pytest.mark.parametrize("spare", range(8))
def test_a_lack_of_descriptors_is_reported(spare: int) -> None:
    """A rank that listens, with `spare` descriptors left, while as many callers come as it will take."""
    processes = multiprocessing.get_context("fork")
    results, theirs = processes.Pipe(duplex=False)
    rank = processes.Process(target=_listen_with_few_descriptors, args=(spare, theirs))
    rank.start()
    theirs.close()
    callers = []
    try:
        while not results.poll(0.02):
            sock = socket.socket()
            sock.bind((CALLER, 0))
            if sock.connect_ex((LISTENER, PORT)):
                sock.close()
            else:
                callers.append(sock)
        said = results.recv()
    finally:
        rank.kill()
        rank.join()
        for sock in callers:
            sock.close()
    assert said.startswith("TransportError: "), said
    # The handshake, its listener and a first connection each take one.
    assert ("RLIMIT_NOFILE is" if spare < 3 else "waited 1 s for rank 0") in said, said


def _listen_with_few_descriptors(spare: int, results: Connection) -> None:
    used = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    for number in range(used):  # leave no gaps
        try:
            os.fstat(number)
        except OSError:
            os.dup2(results.fileno(), number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1 + spare, used + 1 + spare))
    try:
        TcpTransport(MINE, PORT).connect([TO_CALLER], 1.0)
    except BaseException as error:
        results.send(f"{type(error).__name__}: {error}")
