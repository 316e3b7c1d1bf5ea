# SPDX-License-Identifier: Apache-2.0
"""The verbs wire with both ends in one process: registrations, closing, waiting and events."""

from __future__ import annotations

import gc
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from hipsnet.engine.engine import Engine, Limits, State
from hipsnet.engine.wire.verbs import VerbsWire
from hipsnet.engine.wire.verbs_library import library
from hipsnet.engine.wire.verbs_posting import LibibverbsPosting, Posting, PyverbsPosting
from hipsnet.errors import TransportError
from hipsnet.topology import Fabric
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Peer
from hipsnet.transport.options import Options
from hipsnet.transport.registry import open_transport
from hipsnet.transport.verbs import queue_pair
from hipsnet.transport.verbs.qp_attributes import QpAttributes
from hipsnet.transport.verbs.transport import VerbsTransport
from tests.engine.test_tcp import Submitted
from tests.engine.test_tcp import submit as submit_to
from tests.engine.world import Call
from tests.vm.inside import rdma_fabric as rig

BOUND_S = 60.0
QUEUE_PAIRS, AT_ONCE = 1000, 25  # of both ends together; of each end
LIMITS = Limits(BOUND_S / 2, BOUND_S)
SHAPE = "torus(2)"
POSTINGS: tuple[Callable[..., Posting], ...] = (LibibverbsPosting, PyverbsPosting)


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    """Two servers with one port each."""
    with rig.rdma_fabric(tmp_path_factory.mktemp("rdma"), "{kind: bcube, n: 2, levels: 1}") as made:
        yield made[1]


class Pair:
    """Two transports of this process, neighbours over the cable between ranks 0 and 1, once or several times."""

    def __init__(self, fabric: Fabric, connections: int = 1, ack_timeout: int = 16) -> None:
        a, b = (rig.address(fabric.servers[rank].ports[0]) for rank in (0, 1))
        self.peers = (
            [Peer(1, number, a, number, b) for number in range(connections)],
            [Peer(0, number, b, number, a) for number in range(connections)],
        )
        options = Options(30000, qp_attributes=QpAttributes(ack_timeout=ack_timeout))
        self.ends: list[Any] = [
            open_transport("verbs", Greeting(rank, 2, "pair", "token"), options) for rank in (0, 1)
        ]
        self.closers = [end.close for end in self.ends]

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor() as threads:
                list(threads.map(lambda end, peers: end.connect(peers, BOUND_S), self.ends, self.peers))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda close: close(), self.closers))

    def wire(self, end: int, posting: Callable[..., Posting] = LibibverbsPosting) -> VerbsWire:
        wire = VerbsWire(self.ends[end], posting(library(), self.ends[end]))
        self.closers[end] = wire.close
        return wire

    def engines(self, posting: Callable[..., Posting] = LibibverbsPosting) -> list[Engine]:
        """An engine for each end."""
        made = []
        for rank in (0, 1):
            made.append(Engine(self.wire(rank, posting), rank, 2, self.peers[rank], LIMITS))
            self.closers[rank] = partial(close, made[-1])
        return made


def close(engine: Engine) -> None:
    if engine.is_busy:
        engine.fail("the test is over")
    engine.close()


def submit(engine: Engine, rank: int, call: Call) -> Submitted:
    return submit_to(SHAPE, rank, engine, call, is_async=True)


def words_of(engine: Engine) -> str:
    text: bytes = library().ffi.string(engine.failure().words)
    return text.decode()


def test_pyverbs_objects_contain_the_pointers_and_no_other(fabric: Fabric) -> None:
    """The pointers that C uses are those of this queue pair, and another's description finds nothing."""
    with Pair(fabric, 3) as pair:
        end: VerbsTransport = pair.ends[0]
        posting = LibibverbsPosting(library(), end)
        (queue,) = [posting._queue(library(), device) for device in end.devices]
        pairs = [posting._pair(library(), c.pair.pair, queue) for c in end.connections]
        assert len(set(pairs)) == 3
        words = library().ffi.new("u64[]", [0, 1, 8, 1 << 46, 2**64 - 8, queue, *pairs])
        find = posting._lib.verbs_ibverbs_find_pair
        for connection, address in zip(end.connections, pairs, strict=True):
            assert find(words, len(words), connection.pair.number, queue) == address
            assert not find(words, len(words), connection.pair.number, queue + 8)
        assert not find(words, len(words), max(c.pair.number for c in end.connections) + 1, queue)
        descriptor = end.devices[0].descriptor
        assert posting._lib.verbs_ibverbs_find_queue(words, len(words), descriptor) == queue
        assert not posting._lib.verbs_ibverbs_find_queue(words, len(words), descriptor + 1)
        posting.close()


@pytest.mark.parametrize("posting", POSTINGS)
def test_calls_of_all_sizes_without_rnr(fabric: Fabric, posting: Callable[..., Posting]) -> None:
    """One end submits all calls before the other submits any, which receives and posts nothing meanwhile."""
    ports = [fabric.servers[rank].ports[0] for rank in (0, 1)]
    rnr = [rig.receiver_not_ready(port) for port in ports]
    calls = [Call(count, seed=n) for n, count in enumerate((0, 1, 100, 5_000, 300_001, 17, 40_000) * 4)]
    with Pair(fabric) as pair:
        engines = pair.engines(posting)
        for rank, engine in enumerate(engines):
            work = [submit(engine, rank, call) for call in calls]
            if rank == 0:
                assert engine.wait(work[-1].call, 0.5) == State.ACTIVE
                first = work
        for one, other, call in zip(first, work, calls, strict=True):
            for engine, submitted in ((engines[0], one), (engines[1], other)):
                assert engine.wait(submitted.call, BOUND_S) == State.DONE, words_of(engine)
                assert (submitted.array == call.result(2)).all()
    assert [rig.receiver_not_ready(port) for port in ports] == rnr


def test_nothing_is_left_of_a_thousand_queue_pairs(fabric: Fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    # An emulated CPU needs a minute for all their rings.
    for name, small in (("RECEIVES", 4), ("SENDS", 4), ("SLOT_BYTES", 64), ("RING_BYTES", 64)):
        monkeypatch.setattr(queue_pair, name, small)
    gc.collect()  # free objects that an earlier failed test left in cycles
    before, descriptors = rig.resources(), len(list(Path("/proc/self/fd").iterdir()))
    array = np.zeros(4096, np.uint8)
    for cycle in range(QUEUE_PAIRS // (2 * AT_ONCE)):
        with Pair(fabric, AT_ONCE) as pair:
            if cycle % 5 == 0:
                for end in (0, 1):
                    pair.wire(end).prepare([array])
                assert all(rig.resources()[name]["qp"] == n["qp"] + AT_ONCE for name, n in before.items())
                assert all(rig.resources()[name]["mr"] > n["mr"] + AT_ONCE for name, n in before.items())
    assert rig.resources() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_a_registration_lives_as_long_as_its_array(fabric: Fabric) -> None:
    device = rig.device(fabric.servers[0].ports[0])
    with Pair(fabric) as pair:
        wire = pair.wire(0)
        before = rig.resources()[device]["mr"]
        array = np.zeros(1 << 16, np.float32)
        for _ in range(3):
            wire.prepare([array.view(np.uint8)])
            assert rig.resources()[device]["mr"] == before + 1
        wire.prepare([array[:100], np.frombuffer(memory := bytearray(100), np.uint8)])
        assert rig.resources()[device]["mr"] == before + 2  # the view of the bytearray is gone
        del array, memory
        gc.collect()
        assert rig.resources()[device]["mr"] == before


@pytest.mark.parametrize("in_flight", [False, True], ids=["idle", "writing"])
def test_a_dead_path_is_detected_whatever_is_in_flight(fabric: Fabric, in_flight: bool) -> None:
    """The peer's port goes down; the near port stays active, and rxe repeats without end (a retry count of 7)."""
    far = fabric.servers[1].ports[0]
    with Pair(fabric, ack_timeout=15) as pair:  # shorter ones expire while a processor is awaited
        engine = pair.engines()[0]
        work = submit(engine, 0, Call(300_000))
        assert engine.wait(work.call, 0.5) == State.ACTIVE, words_of(engine)
        with rig.broken(fabric, far, f"link set {rig.netdev(far)} down"):
            if in_flight:
                submit(engine, 0, Call(300_000))
            assert engine.wait(work.call, BOUND_S) == State.FAILED
        assert "no acknowledgement for " in words_of(engine)
        assert "is ACTIVE here" in words_of(engine)


def test_an_idle_endpoint_sleeps(fabric: Fabric) -> None:
    """Waiting uses no CPU time: only periodic checks and heartbeats wake up."""
    with Pair(fabric) as pair:
        engine = pair.engines()[0]
        work = submit(engine, 0, Call(300_000))
        engine.wait(work.call, 0.5)
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        spent = time.process_time()
        engine.wait(work.call, 2.0)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - switches < 80
        assert time.process_time() - spent < 0.5


def test_a_removed_device_is_reported_at_both_ends(fabric: Fabric) -> None:
    """Simulated by renaming: rxe delays a removal until the device is unused, a card does not."""
    before, device = rig.resources(), rig.device(fabric.servers[1].ports[0])
    try:
        with Pair(fabric) as pair:
            engines = pair.engines()
            work = [submit(engine, rank, Call(300_000)) for rank, engine in enumerate(engines)]
            assert [engines[rank].wait(work[rank].call, BOUND_S) for rank in (0, 1)] == [State.DONE] * 2
            rig.rdma(f"dev set {device} name gone")
            late = submit(engines[1], 1, Call(10))
            assert engines[1].wait(late.call, BOUND_S) == State.FAILED
            assert (
                words_of(engines[1]) == f"the RDMA device {device} is gone (removed, or its driver reset it)"
            )
            late = submit(engines[0], 0, Call(10))
            assert engines[0].wait(late.call, BOUND_S) != State.DONE
    finally:
        rig.rdma(f"dev set gone name {device}")
    assert rig.resources() == before


def test_a_missing_device_is_reported_before_anything_else(fabric: Fabric) -> None:
    port = fabric.servers[1].ports[0]
    subprocess.run(["rdma", "link", "del", rig.device(port)], check=True)
    try:
        with pytest.raises(TransportError) as caught:
            open_transport("verbs", Greeting(1, 2, "pair", "token"), Options(30001)).connect(
                [Peer(0, 0, rig.address(port), 0, "10.0.0.9")], 1.0
            )
    finally:
        rig.rdma(f"link add {rig.device(port)} type rxe netdev {rig.netdev(port)}")
    assert f"no RDMA device has a RoCEv2 GID for {rig.address(port)} on {rig.netdev(port)}" in str(
        caught.value
    )
    assert "rdma link add" in str(caught.value)
