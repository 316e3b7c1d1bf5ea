# SPDX-License-Identifier: Apache-2.0
"""The verbs transport with both ends in one process: registrations, closing, waiting and events."""

from __future__ import annotations

import gc
import resource
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from numpy.typing import NDArray

from hipsnet.errors import TransportError
from hipsnet.topology import Fabric
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Completion, Event, Peer, Region
from hipsnet.transport.options import Options
from hipsnet.transport.registry import open_transport
from hipsnet.transport.verbs import queue_pair
from hipsnet.transport.verbs.flow import WINDOW
from hipsnet.transport.verbs.qp_attributes import QpAttributes
from tests.vm.inside import rdma_fabric as rig

BOUND_S = 60.0
QUEUE_PAIRS, AT_ONCE = 1000, 25  # of both ends together; of each end


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    """Two servers with one port each."""
    with rig.rdma_fabric(tmp_path_factory.mktemp("rdma"), "{kind: bcube, n: 2, levels: 1}") as made:
        yield made[1]


class Pair:
    """Two transports of this process, neighbours over the cable between ranks 0 and 1, once or several times."""

    def __init__(self, fabric: Fabric, connections: int = 1, ack_timeout: int = 16) -> None:
        a, b = (rig.address(fabric.servers[rank].ports[0]) for rank in (0, 1))
        self._peers = (
            [Peer(1, number, a, number, b) for number in range(connections)],
            [Peer(0, number, b, number, a) for number in range(connections)],
        )
        options = Options(30000, qp_attributes=QpAttributes(ack_timeout=ack_timeout))
        self.ends = [open_transport("verbs", Greeting(rank, 2, "pair", "token"), options) for rank in (0, 1)]

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor() as threads:
                list(threads.map(lambda end, peers: end.connect(peers, BOUND_S), self.ends, self._peers))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        for end in self.ends:
            end.close()

    def regions(self, source: NDArray[np.uint8], target: NDArray[np.uint8]) -> tuple[Region, Region]:
        """Register memory at each end, and announce the second's to the first."""
        a, b = self.ends
        region, there = a.register(source), b.register(target)
        b.post_message(0, b"it is told")
        self.until(0, Event.MESSAGE)
        return region, there

    def until(self, end: int, event: Event) -> list[Completion]:
        """Poll both ends until `end` reports such an event; return all events up to it."""
        found: list[Completion] = []
        deadline = time.monotonic() + BOUND_S
        while not any(completion.event == event for completion in found):
            assert time.monotonic() < deadline, found
            self.ends[1 - end].poll(0.01)
            found += self.ends[end].poll(0.01)
        return found


def test_nothing_is_left_of_a_thousand_queue_pairs(fabric: Fabric, monkeypatch: pytest.MonkeyPatch) -> None:
    # An emulated CPU needs a minute for all their rings.
    monkeypatch.setattr(queue_pair, "RECEIVES", 4)
    monkeypatch.setattr(queue_pair, "SENDS", 4)
    gc.collect()  # free objects that an earlier failed test left in cycles
    before, descriptors = rig.resources(), len(list(Path("/proc/self/fd").iterdir()))
    array = np.zeros(4096, np.uint8)
    for cycle in range(QUEUE_PAIRS // (2 * AT_ONCE)):
        with Pair(fabric, AT_ONCE) as pair:
            if cycle % 5 == 0:
                pair.ends[0].deregister(pair.ends[0].register(array))
                pair.ends[0].post_message(0, b"hello")
                assert pair.until(1, Event.MESSAGE)[-1].payload == b"hello"
                assert all(rig.resources()[name]["qp"] == n["qp"] + AT_ONCE for name, n in before.items())
    assert rig.resources() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_a_registration_lives_as_long_as_its_array(fabric: Fabric) -> None:
    device = rig.device(fabric.servers[0].ports[0])
    with Pair(fabric) as pair:
        end, before = pair.ends[0], rig.resources()[device]["mr"]
        array = np.zeros(1 << 16, np.float32)
        keys = set()
        for _ in range(3):
            region = end.register(array.view(np.uint8))
            keys.add(region.key)
            end.deregister(region)
            del region
            assert rig.resources()[device]["mr"] == before + 1
        assert len(keys) == 1
        part = end.register(array[:100].view(np.uint8))
        assert rig.resources()[device]["mr"] == before + 2
        del array, part
        gc.collect()
        assert rig.resources()[device]["mr"] == before


def test_a_peer_that_receives_nothing_is_awaited_without_rnr(fabric: Fabric) -> None:
    """Far more writes than the peer has receives, while it sleeps; then all arrive, in order."""
    ports = [fabric.servers[rank].ports[0] for rank in (0, 1)]
    rnr = [rig.receiver_not_ready(port) for port in ports]
    count = 4 * WINDOW
    with Pair(fabric) as pair:
        a, b = pair.ends
        source, target = np.arange(8000, dtype=np.uint8), np.zeros(8000, np.uint8)
        region, there = pair.regions(source, target)
        for number in range(count):
            a.post_write(0, region, 7 * number, 7, there.key, 7 * number, number)
        sent: list[int] = []
        deadline = time.monotonic() + BOUND_S
        while not sent:
            assert time.monotonic() < deadline
            sent += [c.immediate for c in a.poll(0.05) if c.event == Event.SENT]
        sent += [c.immediate for _ in range(20) for c in a.poll(0.05) if c.event == Event.SENT]
        assert len(sent) <= WINDOW
        written: list[int] = []
        while len(written) < count or len(sent) < count:
            assert time.monotonic() < deadline, (len(written), len(sent))
            written += [c.immediate for c in b.poll(0.01) if c.event == Event.WRITTEN]
            sent += [c.immediate for c in a.poll(0.01) if c.event == Event.SENT]
        assert written == sent == list(range(count))
        assert (target[: 7 * count] == source[: 7 * count]).all()
        assert not target[7 * count :].any()
    assert [rig.receiver_not_ready(port) for port in ports] == rnr


def test_writing_where_the_peer_has_nothing_ends_the_connection(fabric: Fabric) -> None:
    with Pair(fabric) as pair:
        a = pair.ends[0]
        region, there = pair.regions(np.zeros(64, np.uint8), np.zeros(64, np.uint8))
        a.post_write(0, region, 0, 64, there.key, 1, 5)
        (closed,) = [c for c in pair.until(0, Event.CLOSED) if c.event == Event.CLOSED]
        assert b"64 bytes at 1 are to be written there" in closed.payload
        assert pair.until(1, Event.CLOSED)


def test_what_was_written_before_an_orderly_close_counts_as_sent(fabric: Fabric) -> None:
    """The closing end reports what it received, so a lost acknowledgement cannot block the other end."""
    with Pair(fabric) as pair:
        a, b = pair.ends
        region, there = pair.regions(np.ones(64, np.uint8), np.zeros(64, np.uint8))
        for number in range(3):
            a.post_write(0, region, 0, 64, there.key, 0, number)
        found = a.poll(0)
        written = 0
        deadline = time.monotonic() + BOUND_S
        while written < 3:
            assert time.monotonic() < deadline, written
            written += sum(c.event == Event.WRITTEN for c in b.poll(0.05))
        b.close()
        while not found or found[-1].event != Event.CLOSED:
            assert time.monotonic() < deadline, found
            found += a.poll(0.1)
        assert [c.immediate for c in found if c.event == Event.SENT] == [0, 1, 2]
        assert found[-1].payload == b"it closed the connection"


@pytest.mark.parametrize("posted", [0, 1, WINDOW], ids=["idle", "writing", "no credit left"])
def test_a_dead_path_is_detected_whatever_is_in_flight(fabric: Fabric, posted: int) -> None:
    """The peer's port goes down; the near port stays active, and rxe repeats without end (a retry count of 7)."""
    far = fabric.servers[1].ports[0]
    with Pair(fabric, ack_timeout=10) as pair:
        end = pair.ends[0]
        region, there = pair.regions(np.ones(64, np.uint8), np.zeros(64, np.uint8))
        for number in range(posted if posted == WINDOW else 0):  # these arrive; their credit is not returned
            end.post_write(0, region, 0, 64, there.key, 0, number)
        sent = 0
        deadline = time.monotonic() + BOUND_S
        while posted == WINDOW and sent < WINDOW - 1:  # one credit was used by the region's announcement
            assert time.monotonic() < deadline, sent
            sent += sum(each.event == Event.SENT for each in end.poll(0.05))
        with rig.broken(fabric, far, f"link set {rig.netdev(far)} down"):
            if posted == 1:
                end.post_write(0, region, 0, 64, there.key, 0, 0)
            found: list[Completion] = []
            while not found or found[-1].event != Event.CLOSED:
                assert time.monotonic() < deadline, found
                found += end.poll(0.1)
    assert b"no acknowledgement for " in found[-1].payload
    assert b"is ACTIVE here" in found[-1].payload


def test_an_idle_endpoint_sleeps(fabric: Fabric) -> None:
    """Waiting uses no CPU time: at most the periodic check wakes up."""
    with Pair(fabric) as pair:
        end = pair.ends[0]
        end.poll(0.1)
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        spent, began = time.thread_time(), time.monotonic()
        while time.monotonic() - began < 2.0:
            end.poll(0.5)
        assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - switches < 40
        assert time.thread_time() - spent < 0.5


def test_a_removed_device_is_reported_at_both_ends(fabric: Fabric) -> None:
    """Simulated by renaming: rxe delays a removal until the device is unused, a card does not."""
    before, device = rig.resources(), rig.device(fabric.servers[1].ports[0])
    try:
        with Pair(fabric) as pair:
            rig.rdma(f"dev set {device} name gone")
            why = [pair.until(end, Event.CLOSED)[-1].payload.decode() for end in (1, 0)]
        assert why == [
            f"the RDMA device {device} is gone (removed, or its driver reset it)",
            "it closed the connection",
        ]
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
