"""The verbs transport itself, two of them in one process: what it keeps, gives back, waits for and tells."""

from __future__ import annotations

import gc
import resource
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hipsnet.errors import TransportError
from hipsnet.topology import Fabric
from hipsnet.transport.handshake import Greeting
from hipsnet.transport.interface import Completion, Event, Peer
from hipsnet.transport.opening import Options, open_transport
from tests.vm.inside import rdma_fabric as rig

BOUND_S = 60.0


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    """Two servers with one port each."""
    with rig.rdma_fabric(tmp_path_factory.mktemp("rdma"), "{kind: bcube, n: 2, levels: 1}") as made:
        yield made[1]


class Pair:
    """Two transports of this process, neighbours over the cable between ranks 0 and 1, once or several times."""

    def __init__(self, fabric: Fabric, connections: int = 1) -> None:
        a, b = (rig.address(fabric.servers[rank].ports[0]) for rank in (0, 1))
        peers = (
            [Peer(1, number, a, number, b) for number in range(connections)],
            [Peer(0, number, b, number, a) for number in range(connections)],
        )
        self.ends = [
            open_transport("verbs", Greeting(rank, 2, "pair", "token"), Options(30000)) for rank in (0, 1)
        ]
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda end, theirs: end.connect(theirs, BOUND_S), self.ends, peers))

    def until(self, end: int, event: Event) -> list[Completion]:
        """Poll both ends until `end` tells of such an event; what it told on the way."""
        found: list[Completion] = []
        deadline = time.monotonic() + BOUND_S
        while not any(completion.event == event for completion in found):
            assert time.monotonic() < deadline, found
            self.ends[1 - end].poll(0.01)
            found += self.ends[end].poll(0.01)
        return found

    def close(self) -> None:
        for end in self.ends:
            end.close()


def test_a_registration_lives_as_long_as_its_array(fabric: Fabric) -> None:
    device = rig.device(fabric.servers[0].ports[0])
    pair = Pair(fabric)
    try:
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
    finally:
        pair.close()


def test_writing_where_the_peer_has_nothing_ends_the_connection(fabric: Fabric) -> None:
    pair = Pair(fabric)
    try:
        a, b = pair.ends
        region, there = a.register(np.zeros(64, np.uint8)), b.register(np.zeros(64, np.uint8))
        b.post_message(0, b"it is told")
        pair.until(0, Event.MESSAGE)
        a.post_write(0, region, 0, 64, there.key, 1, 5)
        (closed,) = [c for c in pair.until(0, Event.CLOSED) if c.event == Event.CLOSED]
        assert b"64 bytes at 1 are to be written there" in closed.payload
        assert pair.until(1, Event.CLOSED)
    finally:
        pair.close()


def test_idle_is_asleep(fabric: Fabric) -> None:
    """Waiting costs no processor time: a second of it wakes up for its own look-around at most."""
    pair = Pair(fabric)
    try:
        end = pair.ends[0]
        end.poll(0.1)
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        spent, began = time.thread_time(), time.monotonic()
        while time.monotonic() - began < 2.0:
            end.poll(0.5)
        assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - switches < 40
        assert time.thread_time() - spent < 0.5
    finally:
        pair.close()


def test_a_device_that_is_missing_is_told_before_anything_else(fabric: Fabric) -> None:
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
