# SPDX-License-Identifier: Apache-2.0
"""Engines over the verbs wire, on devices in memory (verbs_rig.h): all ranks in this process, one thread each."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipsnet.collective.algorithms import Algorithm
from hipsnet.engine.engine import Engine, Limits, Reason, State
from hipsnet.stack.roce.core import Core
from hipsnet.transport.interface import Peer
from tests.engine.test_tcp import Submitted, submit
from tests.engine.world import Call, routes_of

BOUND_S = 60.0
LIMITS = Limits(5.0, 10.0)
HIPS = Algorithm()
SLOT, RING = 34 << 10, 512 << 10
SHAPE = "bcube(2,2)"
GRANT = 2**64 - 1


class RigWire:
    """The wire of one rank of a rig."""

    def __init__(self, core: Core, rig: Any, rank: int, links: Sequence[int]) -> None:
        ffi, lib = core
        self._end = (rig, rank, len(links) // 2)
        self.library = core
        self.handle = lib.rig_add(rig, rank, len(links) // 2, ffi.new("u32[]", links), 2)
        assert self.handle != ffi.NULL
        self.operations = core.lib.verbs_wire_operations()
        self.message_max = SLOT - core.lib.VERBS_HEADER

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> None:
        """The rig registers what it does not know."""

    def close(self) -> None:
        rig, rank, connections = self._end
        for connection in range(connections):
            self.library.lib.rig_close(rig, rank, connection, 0)
        self.library.lib.verbs_wire_close(self.handle)


@dataclass
class Job:
    """The engines of a fabric by rank (of those that are absent None)."""

    core: Core
    rig: Any
    routes: Any
    engines: list[Any] = field(default_factory=list)

    def on_all(self, body: Callable[[int, Engine], Any]) -> list[Any]:
        with ThreadPoolExecutor(len(self.engines)) as threads:
            every = [threads.submit(body, rank, engine) for rank, engine in enumerate(self.engines) if engine]
            return [one.result(BOUND_S) for one in every]

    def connection(self, rank: int, peer: int) -> int:
        return next(number for (other, _, _), number in self.routes[rank].items() if other == peer)

    @property
    def counts(self) -> Any:
        return self.core.lib.rig_counts(self.rig)

    def check_devices(self) -> None:
        """Nothing happened that a device would refuse."""
        counts = self.counts
        assert (counts.rnr, counts.overflows, counts.violations) == (0, 0, 0)


@pytest.fixture
def start(verbs_rig: Core, tmp_path: Path) -> Any:
    """A function that makes a job, as a context."""
    gid = tmp_path / "gid"
    gid.write_text("gid\n")

    @contextmanager
    def job(
        shape: str = SHAPE,
        limits: Limits = LIMITS,
        absent: tuple[int, ...] = (),
        window: int = 32,
        seed: int = 0,
        silent_s: float = BOUND_S,
    ) -> Iterator[Job]:
        lib = verbs_rig.lib
        routes = routes_of(shape, HIPS)
        rig = lib.rig_create(window, SLOT, RING, int(silent_s * 1e9), str(gid).encode(), seed)
        made = Job(verbs_rig, rig, routes)
        wires = []
        for rank, mine in enumerate(routes):
            links = [n for peer, port, theirs in mine for n in (peer, routes[peer][rank, theirs, port])]
            wires.append(RigWire(verbs_rig, rig, rank, links))
        lib.rig_start(rig)
        for rank, (mine, wire) in enumerate(zip(routes, wires, strict=True)):
            peers = [Peer(peer, port, "", theirs, "") for peer, port, theirs in mine]
            made.engines.append(None if rank in absent else Engine(wire, rank, len(routes), peers, limits))
        try:
            yield made
        finally:
            lib.rig_discard_writes(rig)
            for engine in made.engines:
                if engine and engine.is_busy:
                    engine.fail("the test is over")
            with ThreadPoolExecutor(len(routes)) as threads:
                list(threads.map(lambda engine: engine and engine.close(), made.engines))
            for rank in absent:
                wires[rank].close()
            lib.rig_destroy(rig)

    job.gid = gid  # type: ignore[attr-defined]
    return job


@pytest.mark.parametrize("window", [4, 32])
def test_calls_of_all_sizes(start: Any, window: int) -> None:
    calls = [Call(count, seed=n) for n, count in enumerate((1, 100, 5_000, 300_000, 17, 300_001, 0))]

    def body(rank: int, engine: Engine) -> list[bytes]:
        found = []
        for call in calls:
            work = submit(SHAPE, rank, engine, call)
            assert engine.wait(work.call, BOUND_S) == State.DONE
            found.append(work.array.tobytes())
        return found

    with start(window=window) as job:
        staging = job.counts.pinned
        for found in job.on_all(body):
            assert found == [call.result(4).tobytes() for call in calls]
        counts = job.counts
        job.check_devices()
        assert counts.pinned == staging
        assert counts.writes > 0
        assert counts.signalled < counts.writes + counts.sends  # a completion covers those before it


@pytest.mark.parametrize("seed", range(3))
def test_many_calls_in_flight_without_a_wait(start: Any, seed: int) -> None:
    order = random.Random(seed)
    calls = [Call(order.choice((3, 900, 40_000, 200_000)), seed=n) for n in range(24)]

    def body(rank: int, engine: Engine) -> list[bytes]:
        work = [submit(SHAPE, rank, engine, call, is_async=True) for call in calls]
        for one in work:
            assert engine.wait(one.call, BOUND_S) == State.DONE
        return [one.array.tobytes() for one in work]

    with start(window=6, seed=seed) as job:
        for found in job.on_all(body):
            assert found == [call.result(4).tobytes() for call in calls]
        job.check_devices()


def failure_of(engine: Engine, work: Submitted) -> tuple[int, int, str]:
    assert engine.wait(work.call, BOUND_S) == State.FAILED
    failure = engine.failure()
    return failure.reason, failure.culprit, engine.library.ffi.string(failure.words).decode()


def test_a_failed_completion_ends_the_connection_with_its_status(start: Any) -> None:
    with start("torus(3)") as job:
        job.core.lib.rig_fail(job.rig, 0, job.connection(0, 2), 12)

        def body(rank: int, engine: Engine) -> tuple[int, int, str]:
            return failure_of(engine, submit("torus(3)", rank, engine, Call(300_000)))

        found = set(job.on_all(body))
    end_status = job.core.lib.VERBS_END_STATUS
    assert found == {(int(Reason.CLOSED), 2, f"reason {end_status}: 12, 0")}


def test_a_dead_path_is_noticed_with_nothing_in_flight(start: Any) -> None:
    """Rank 1 has not submitted the call: rank 0 waits, and only probes show that the path is dead."""
    limits = Limits(20.0, 40.0)
    with start("torus(2)", limits, silent_s=0.2) as job:
        engine = job.engines[0]
        work = submit("torus(2)", 0, engine, Call(10))
        while not job.counts.probes:
            assert engine.wait(work.call, 0.05) == State.ACTIVE
        for connection in range(len(job.routes[0])):
            job.core.lib.rig_cut(job.rig, 0, connection, True)
        reason, culprit, words = failure_of(engine, work)
        assert (reason, culprit) == (Reason.CLOSED, 1)
        assert words.startswith(f"reason {job.core.lib.VERBS_END_SILENT}: ")
        assert int(words.split(": ")[1].split(",")[0]) == 1_000_000  # at least a millisecond


def test_a_lost_gid_ends_the_connection(start: Any) -> None:
    with start("torus(2)", Limits(20.0, 40.0)) as job:
        work = submit("torus(2)", 0, job.engines[0], Call(10))
        start.gid.write_text("dig\n")
        reason, _, words = failure_of(job.engines[0], work)
        assert (reason, words) == (Reason.CLOSED, f"reason {job.core.lib.VERBS_END_ENDPOINT}: 0, 0")
        start.gid.write_text("gid\n")


@pytest.mark.parametrize("arrived", [-1, 0, 1, 10**18])
def test_a_peer_that_closes_is_named(start: Any, arrived: int) -> None:
    with start("torus(2)", absent=(1,)) as job:
        work = submit("torus(2)", 0, job.engines[0], Call(300_000))
        job.core.lib.rig_close(job.rig, 1, 0, arrived)
        assert failure_of(job.engines[0], work) == (Reason.CLOSED, 1, "it closed the connection")


def test_what_has_arrived_before_an_orderly_close_counts_as_sent(start: Any) -> None:
    """The acknowledgements are lost, and the closing end reports how much it has received."""
    call = Call(100_000)
    with start("torus(2)") as job:
        lib, (engine, peer) = job.core.lib, job.engines
        lib.rig_lose_acknowledgements(job.rig, 0, 0)
        work, other = (submit("torus(2)", rank, job.engines[rank], call) for rank in (0, 1))
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(peer.wait, other.call, BOUND_S)
            assert engine.wait(work.call, 0.5) == State.ACTIVE
            assert waiting.result() == State.DONE
        lib.rig_close(job.rig, 1, 0, lib.rig_arrived(job.rig, 1, 0))
        assert engine.wait(work.call, BOUND_S) == State.DONE
        assert (work.array == call.result(2)).all()


HEADER = struct.Struct("<B7xQ")
REGION = struct.Struct("<IIQQ")
HELLO = struct.Struct("<BIIIII")  # of the core
MESSAGES = {
    "shorter than a header": b"\x01" * 15,
    "empty": b"",
    "of an unknown kind": HEADER.pack(3, 0),
    "a credit with a payload": HEADER.pack(0, 0) + b"\0",
    "a credit that was never used": HEADER.pack(0, 1000),
    "a credit beyond all numbers": HEADER.pack(0, GRANT),
    "a cut announcement": HEADER.pack(2, 0) + bytes(23),
    "region 0": HEADER.pack(2, 0) + REGION.pack(0, 1, 1, 1),
    "a region beyond the last": HEADER.pack(2, 0) + REGION.pack(4096, 1, 1, 1),
    "nonsense for the core": HEADER.pack(1, 0) + b"\xff\xff\xff",
    "longer than a slot": bytes(SLOT),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_a_malformed_message_ends_the_connection(start: Any, message: bytes) -> None:
    with start("torus(2)", absent=(1,)) as job:
        work = submit("torus(2)", 0, job.engines[0], Call(10))
        assert job.core.lib.rig_inject(job.rig, 1, 0, message, len(message))
        assert failure_of(job.engines[0], work)[1] == 1


def test_random_messages_cause_no_memory_error(start: Any) -> None:
    order = random.Random(7)
    for seed in range(60):
        with start("torus(2)", Limits(0.05, 0.1), absent=(1,), seed=seed) as job:
            work = submit("torus(2)", 0, job.engines[0], Call(order.choice((10, 50_000))))
            for _ in range(order.randrange(1, 6)):
                body = order.randbytes(order.choice((0, 1, 24, 48, 300)))
                words = HEADER.pack(order.choice((0, 1, 1, 1, 2, 3)), order.choice((0, 0, 1, GRANT))) + body
                job.core.lib.rig_inject(job.rig, 1, 0, words, len(words))
            assert job.engines[0].wait(work.call, BOUND_S) == State.FAILED


def test_a_write_beyond_what_was_announced_is_not_sent(start: Any) -> None:
    """A peer that announces too little for its own key: the error names both sizes, before any byte leaves."""
    with start("torus(2)", absent=(1,)) as job:
        core, engine = job.core, job.engines[0]
        hello = HELLO.pack(0, 9, LIMITS.slots, LIMITS.slot_bytes, LIMITS.eager_slots, engine._eager_bytes)
        for message in (HEADER.pack(2, 0) + REGION.pack(9, 77, 1 << 40, 100), HEADER.pack(1, 0) + hello):
            assert core.lib.rig_inject(job.rig, 1, 0, message, len(message))
        work = submit("torus(2)", 0, job.engines[0], Call(300_000))
        reason, culprit, words = failure_of(job.engines[0], work)
        assert (reason, culprit) == (Reason.CLOSED, 1)
        assert words.startswith("it has announced 100 bytes as region 9, and ")
        assert job.counts.writes == 0


def test_memory_in_use_is_removed_after_its_last_use(verbs_rig: Core, tmp_path: Path) -> None:
    """Two views of one piece of memory, of which the registered one dies during a call of the other."""
    ffi, lib = verbs_rig
    rig = lib.rig_create(4, SLOT, RING, 1 << 40, b"gid", 0)
    wire = lib.rig_add(rig, 0, 1, ffi.new("u32[]", [0, 0]), 1)
    lib.rig_start(rig)
    memory = np.zeros(100, np.uint8)
    address = ffi.cast("void *", memory.ctypes.data)
    key = lib.rig_register(rig, 0, address, 100)
    assert lib.rig_register(rig, 0, address, 100) == key
    assert not lib.verbs_wire_remove_region(wire, key, True)
    lib.rig_deregister(rig, 0, key)
    assert lib.rig_counts(rig).pinned == 1
    lib.rig_deregister(rig, 0, key)
    assert lib.rig_counts(rig).pinned == 0
    lib.verbs_wire_close(wire)
    lib.rig_destroy(rig)


def test_an_idle_engine_sleeps(start: Any) -> None:
    with start("torus(2)", Limits(50.0, 100.0)) as job:
        engine = job.engines[0]
        work = submit("torus(2)", 0, engine, Call(10))
        engine.wait(work.call, 0.1)
        before = int(job.core.lib.verbs_wire_calls(engine._wire.handle))
        began = time.monotonic()
        engine.wait(work.call, 1.0)
        seconds = time.monotonic() - began
        # A probe each second, and heartbeats: each takes a few calls.
        assert int(job.core.lib.verbs_wire_calls(engine._wire.handle)) - before < 60 * (1 + seconds)
