# SPDX-License-Identifier: Apache-2.0
"""Engines over AF_XDP: two ranks in this process, at the ends of a cable."""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import kernel
from hipsnet.engine import library as engine_library
from hipsnet.engine.engine import Engine, Limits, Reason, State
from hipsnet.engine.wire import xdp
from hipsnet.engine.wire.wire import open_wire
from hipsnet.engine.wire.xdp import library
from hipsnet.node import namespace
from hipsnet.node.forwarding import frames_by_reason, read_counters, set_loss
from hipsnet.stack import building
from hipsnet.stack.ports import loop
from hipsnet.stack.xsk.sockets import RECEIVE_CHUNKS, open_sockets
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Peer
from hipsnet.transport.options import Options
from hipsnet.transport.verbs.qp_attributes import QpAttributes
from hipsnet.transport.xdp.options import NodePort, NodePorts
from hipsnet.transport.xdp.transport import XdpTransport
from tests.engine.test_tcp import BOUND_S, LIMITS, on_all, submit
from tests.engine.world import Call
from tools.benchmarks.two_nodes import End, cable

SHAPE = "torus(2)"
QP = QpAttributes(ack_timeout=12)


@pytest.fixture(scope="module")
def ends() -> Iterator[tuple[End, End]]:
    if os.geteuid() != 0:
        pytest.skip("root: makes network namespaces")
    library()
    with cable() as made:
        yield made


@contextmanager
def job(ends: tuple[End, End], limits: Limits = LIMITS, rate_bps: int = 0) -> Iterator[list[Engine]]:
    """The engines of both ranks."""

    def engine(rank: int) -> Engine:
        near, far = ends[rank], ends[1 - rank]
        peer = Peer(1 - rank, 0, near.address, 0, far.address)
        node = NodePorts(near.fabric, near.name, (NodePort(0, near.address),), rate_bps)
        transport = XdpTransport.open(
            Greeting(rank, 2, "cable", "token"), Options(29480, qp_attributes=QP, node=node)
        )
        with namespace.inside(near.namespace):
            transport.connect([peer], BOUND_S)
        return Engine(open_wire("xdp", transport, limits.message_max), rank, 2, [peer], limits)

    with ThreadPoolExecutor(2) as threads:
        engines = list(threads.map(engine, range(2)))
        try:
            yield engines
        finally:
            list(threads.map(Engine.close, engines))


def results(calls: list[Call]) -> list[bytes]:
    return [call.result(2).tobytes() for call in calls]


def test_calls_that_are_awaited_immediately(ends: tuple[End, End]) -> None:
    calls = [Call(count, seed=n) for n, count in enumerate((1, 100, 5_000, 300_000, 17, 300_001, 0))]

    def body(rank: int, engine: Engine) -> list[bytes]:
        found = []
        for call in calls:
            work = submit(SHAPE, rank, engine, call)
            assert engine.wait(work.call, BOUND_S) == State.DONE
            found.append(work.array.tobytes())
        return found

    with job(ends) as engines:
        assert on_all(engines, body) == [results(calls)] * 2


@pytest.mark.parametrize("rate_bps", [0, 200_000_000])
def test_many_calls_in_flight_without_a_wait(ends: tuple[End, End], rate_bps: int) -> None:
    """The progress threads alone do the work, of several large calls and small ones at once."""
    order = random.Random(1)
    calls = [Call(order.choice((3, 900, 40_000, 200_000)), seed=n) for n in range(24)]

    def body(rank: int, engine: Engine) -> list[bytes]:
        work = [submit(SHAPE, rank, engine, call, is_async=True) for call in calls]
        end = threading.Event()
        while any(engine.poll(one.call) == State.ACTIVE for one in work):
            assert engine.failure() is None
            end.wait(0.005)
        return [one.array.tobytes() for one in work]

    with job(ends, rate_bps=rate_bps) as engines:
        assert on_all(engines, body) == [results(calls)] * 2


def test_a_cable_that_loses_frames(ends: tuple[End, End]) -> None:
    calls = [Call(count, seed=n) for n, count in enumerate((5, 200_000, 900, 100_000, 1))]

    def body(rank: int, engine: Engine) -> list[bytes]:
        work = [submit(SHAPE, rank, engine, call) for call in calls]
        assert all(engine.wait(one.call, BOUND_S) == State.DONE for one in work)
        return [one.array.tobytes() for one in work]

    for end in ends:
        set_loss(end.fabric, end.name, 0, 20_000)
    try:
        with job(ends) as engines:
            assert on_all(engines, body) == [results(calls)] * 2
    finally:
        for end in ends:
            set_loss(end.fabric, end.name, 0, 0)
    assert frames_by_reason(read_counters(ends[0].fabric, "a"))["drop_loss"] > 0


def test_a_program_that_computes_acknowledges(ends: tuple[End, End]) -> None:
    """The peer is alive, although nobody waits for a call, for many times as long as a packet may be unanswered."""
    limits = Limits(0.5, 1.0)

    def body(rank: int, engine: Engine) -> State:
        if rank == 1:
            engine.wait(submit(SHAPE, 1, engine, Call(10)).call, BOUND_S)
            threading.Event().wait(2)
        else:
            for count in (10, 50_000):
                work = submit(SHAPE, 0, engine, Call(count))
                state = engine.wait(work.call, BOUND_S)
        return state if rank == 0 else State.DONE

    with job(ends, limits) as engines:
        assert on_all(engines, body) == [State.FAILED, State.DONE]
        failure = engines[0].failure()
        assert failure.reason == Reason.ABSENT, (failure.reason, failure.values[0], failure.seen_by)


def failure_of(engine: Engine) -> tuple[int, int, str]:
    failure = engine.failure()
    return failure.reason, failure.culprit, library().ffi.string(failure.words).decode()


def test_a_rank_that_closes_is_named_and_its_last_acknowledgements_are_not_missed(
    ends: tuple[End, End],
) -> None:
    with job(ends) as engines:
        both = [submit(SHAPE, rank, engine, Call(20_000)) for rank, engine in enumerate(engines)]
        assert on_all(engines, lambda rank, engine: engine.wait(both[rank].call, BOUND_S)) == [
            State.DONE,
            State.DONE,
        ]
        waits = submit(SHAPE, 0, engines[0], Call(10))
        with ThreadPoolExecutor(1) as thread:
            closing = thread.submit(engines.pop().close)
            assert engines[0].wait(waits.call, BOUND_S) == State.FAILED
            closing.result(BOUND_S)
        assert failure_of(engines[0]) == (Reason.CLOSED, 1, "it closed the connection")


def test_a_port_that_goes_down_for_a_moment_delays_and_one_that_is_removed_fails() -> None:
    with cable() as ends, job(ends) as engines:
        work = [submit(SHAPE, rank, engine, Call(10)) for rank, engine in enumerate(engines)]
        assert all(on_all(engines, lambda rank, engine: engine.wait(work[rank].call, BOUND_S) == State.DONE))
        near = ends[0].namespace
        for state in ("down", "up"):
            subprocess.run(["ip", "-n", near, "link", "set", "p0", state], check=True)
            if state == "down":
                work = [
                    submit(SHAPE, rank, engine, Call(30_000), True) for rank, engine in enumerate(engines)
                ]
                assert engines[0].wait(work[0].call, 0.1) == State.ACTIVE
        assert all(on_all(engines, lambda rank, engine: engine.wait(work[rank].call, BOUND_S) == State.DONE))
        subprocess.run(["ip", "-n", near, "link", "delete", "p0"], check=True)
        lost = submit(SHAPE, 0, engines[0], Call(10))
        assert engines[0].wait(lost.call, BOUND_S) == State.FAILED
        assert failure_of(engines[0]) == (Reason.CLOSED, 1, "a port is gone: No such device or address")


def test_engines_leave_no_descriptor_and_no_thread(ends: tuple[End, End]) -> None:
    def body(rank: int, engine: Engine) -> None:
        work = submit(SHAPE, rank, engine, Call(10), is_async=True)
        assert engine.wait(work.call, BOUND_S) == State.DONE

    def open_now() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def once() -> None:
        with job(ends) as engines:
            on_all(engines, body)

    once()
    before = open_now()
    for _ in range(4):
        once()
    assert open_now() == before


def test_callers_and_the_progress_thread_do_not_race(ends: tuple[End, End], tmp_path: Path) -> None:
    """Both ends in a program with the thread sanitizer, which takes over sockets that this process has opened."""
    program = tmp_path / "threads"
    here = Path(__file__).parent
    include = [f"-I{folder}" for folder in (building.FOLDER, engine_library.FOLDER.parent, kernel.FOLDER)]
    sources = [here / "driver_threads.c", here / "xdp_sockets.c", *xdp.SOURCES]
    sources += [engine_library.FOLDER / source for source in engine_library.SOURCES]
    flags = ["-std=gnu11", "-g", "-O1", "-DXDP", "-fsanitize=thread", "-fno-sanitize-recover=all"]
    link = ["-pthread", *(f"-l{name}" for name in xdp.LIBRARIES)]
    subprocess.run(["cc", *flags, *include, *sources, *link, "-o", program], check=True)
    lib = loop.core().lib
    with ExitStack() as closing:
        numbers: list[int] = []
        for end in ends:
            with namespace.inside(end.namespace):
                opened = open_sockets(loop.core(), [end.port(priority=3)])
            closing.callback(opened.close)
            lib.xsk_limit_fill(opened.sockets[0], RECEIVE_CHUNKS)
            numbers += [lib.xsk_memory_fd(opened.memory), lib.xsk_fd(opened.sockets[0])]
        shape = opened.shape
        words = map(str, (shape.receive_chunks, shape.send_frames, shape.frame_bytes, *numbers))
        environ = {**os.environ, "XDP_SOCKETS": " ".join(words)}
        done = subprocess.run(
            [program],
            env=environ,
            pass_fds=numbers,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "0 wrong\n")
