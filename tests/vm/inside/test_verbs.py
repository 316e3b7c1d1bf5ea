# SPDX-License-Identifier: Apache-2.0
"""All-reduce over RDMA: real queue pairs of rdma_rxe, every port a device of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from hipsnet.collective.algorithms import Algorithm
from hipsnet.topology import Fabric
from tests.collective.arena import Arena
from tests.collective.test_engine import expected, vector
from tests.vm.inside import rdma_fabric as rig

FABRICS = {
    "bcube": "{kind: bcube, n: 2, levels: 2}",
    "torus": "{kind: torus, dims: [2, 2]}",
    "star": "{kind: bcube, n: 4, levels: 1}",  # where a flat algorithm's ranks are all in reach of each port
}
COUNTS = (0, 1, 3, 17, 1009, 20_011)
DTYPES = (np.float16, bfloat16, np.float32, np.float64, np.int32, np.int64)
OPERATIONS = ("sum", "mean", "max", "min", "prod")
BOUND_S = 240.0  # an emulated processor beside busy tests is slow


@pytest.fixture(scope="module", params=["bcube", "torus"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Arena, Fabric]]:
    with rig.rdma_fabric(tmp_path_factory.mktemp("rdma"), FABRICS[request.param]) as made:
        yield made


def check_odd_sizes(arena: Arena, **settings: Any) -> None:
    def body(comm: Any) -> list[bytes]:
        return [comm.all_reduce(vector(comm.rank, n, np.float32)).tobytes() for n in COUNTS]

    for outcome in arena.run(body, BOUND_S, chunk_bytes=4096 * 5, **settings):
        assert not outcome.error, outcome.error
        assert outcome.value == [expected(4, n, np.float32, "sum").tobytes() for n in COUNTS]


@pytest.mark.parametrize("exchange", ["mesh", "ring", "ps"])
def test_hips_of_odd_sizes(place: tuple[Arena, Fabric], exchange: str) -> None:
    check_odd_sizes(place[0], exchange=(exchange,))


def test_every_dtype_and_operation(place: tuple[Arena, Fabric]) -> None:
    cases = [(np.dtype(dtype), operation) for dtype in DTYPES for operation in OPERATIONS]

    def body(comm: Any) -> list[bytes]:
        return [comm.all_reduce(vector(comm.rank, 501, d), op).tobytes() for d, op in cases]

    for outcome in place[0].run(body, BOUND_S):
        assert not outcome.error, outcome.error
        for (dtype, operation), found in zip(cases, outcome.value, strict=True):
            correct = expected(4, 501, dtype, operation)
            if operation == "mean" and dtype.kind != "i":
                correct = expected(4, 501, dtype, "sum") / dtype.type(4)
            assert found == correct.tobytes(), (dtype, operation)


@pytest.mark.parametrize("place", ["bcube"], indirect=True)
def test_the_bytes_leave_by_the_right_ports_and_no_receiver_is_ever_not_ready(
    place: tuple[Arena, Fabric],
) -> None:
    arena, fabric = place
    count, calls = 60_000, 3
    transfers = Algorithm("hips", (), False, 1).build(fabric, count).transfers
    ports = [port for server in fabric.servers for port in server.ports]
    before = {port: (rig.sent_bytes(port), rig.counters(port)) for port in ports}

    def body(comm: Any) -> list[float]:
        array = np.ones(count, np.float32)
        return [float(comm.all_reduce(array)[-1]) for _ in range(calls)]

    for outcome in arena.run(body, BOUND_S, algorithm="hips"):
        assert outcome.value == [4.0, 16.0, 64.0], outcome
    for rank, server in enumerate(fabric.servers):
        for port in server.ports:
            mine = transfers[(transfers["src"] == rank) & (transfers["level"] == port.index)]
            payload = int(mine["length"].sum()) * 4 * calls
            assert payload > 0
            sent, counters = rig.sent_bytes(port) - before[port][0], rig.counters(port)
            # Headers, acknowledgements, messages and the handshake are a tenth at most, and 20 kB.
            assert payload < sent < 1.1 * payload + 20_000, (port, payload, sent)
            gained = {name: n - before[port][1][name] for name, n in counters.items()}
            assert gained["sent_pkts"] >= payload // 4096
            assert gained["send_rnr_err"] == gained["rcvd_rnr_err"] == 0, (port, gained)


@pytest.mark.parametrize("place", ["bcube"], indirect=True)
def test_packets_carry_the_topologys_dscp(place: tuple[Arena, Fabric]) -> None:
    """Seen at the receiving port: data, messages and acknowledgements have the class that PFC serves."""
    arena, fabric = place
    port = fabric.servers[3].ports[1]
    with rig.sniffed(port) as arrived:
        arena.run(lambda comm: comm.barrier(), BOUND_S)
        found = arrived()
    assert len(found) > 4
    assert set(found) == {rig.DSCP}


@pytest.mark.parametrize("place", ["bcube"], indirect=True)
def test_memory_of_other_kinds(place: tuple[Arena, Fabric]) -> None:
    def body(comm: Any) -> tuple[bytes, bool]:
        memory = bytearray(np.full(1000, comm.rank, np.int64).tobytes())
        view = memoryview(memory).cast("q")
        same = comm.all_reduce(view) is view
        return bytes(memory), same

    for outcome in place[0].run(body, BOUND_S):
        assert outcome.value == (np.full(1000, 6, np.int64).tobytes(), True), outcome.error


@pytest.mark.parametrize("place", ["star"], indirect=True)
@pytest.mark.parametrize("algorithm", ["ring", "mesh", "ps"])
def test_flat_algorithms_of_odd_sizes(place: tuple[Arena, Fabric], algorithm: str) -> None:
    check_odd_sizes(place[0], algorithm=algorithm)
