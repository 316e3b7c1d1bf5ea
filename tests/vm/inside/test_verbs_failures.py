# SPDX-License-Identifier: Apache-2.0
"""Failures over RDMA are reported as over TCP: rank, peer, level and the verbs' own status; no leaks."""

from __future__ import annotations

import ctypes
import resource
import signal
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from hipsnet.topology import Fabric
from tests.collective.arena import Arena, Rank
from tests.vm.inside import rdma_fabric as rig

BOUND_S = 240.0
LINUX_CAPABILITY_VERSION_3, CAP_IPC_LOCK = 0x20080522, 14


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Arena, Fabric]]:
    folder = tmp_path_factory.mktemp("rdma")
    with rig.rdma_fabric(folder, "{kind: torus, dims: [2, 2]}") as made:
        yield made


def keep_reducing(comm: Any) -> None:
    deadline = time.monotonic() + 2 * BOUND_S
    while time.monotonic() < deadline:
        array = np.full(20_000, comm.rank, np.float32)
        comm.all_reduce(array)
        assert (array == 6).all()


def wait_for_traffic(fabric: Fabric, ranks: Sequence[Rank]) -> None:
    """Until every port has sent a few hundred kilobytes of a running job."""
    ports = [port for server in fabric.servers for port in server.ports]
    before = {port: rig.sent_bytes(port) for port in ports}
    deadline = time.monotonic() + BOUND_S
    while any(rig.sent_bytes(port) - before[port] < 300_000 for port in ports):
        assert all(rank.process.is_alive() for rank in ranks), [rank.outcome(1) for rank in ranks]
        assert time.monotonic() < deadline, "the job does not get going"
        time.sleep(0.2)


def test_a_rank_that_dies_is_named_by_all_and_leaves_nothing(place: tuple[Arena, Fabric]) -> None:
    arena, fabric = place
    before = rig.resources()
    with arena.start(keep_reducing) as ranks:
        wait_for_traffic(fabric, ranks)
        assert all(found["qp"] > before[name]["qp"] for name, found in rig.resources().items())
        ranks[2].signal(signal.SIGKILL)
        for outcome in [rank.outcome(BOUND_S) for rank in ranks[:2] + ranks[3:]]:
            assert "rank 2: it closed the connection" in outcome.error
            assert "at level" in outcome.error
            assert "bytes received" in outcome.error
    assert rig.resources() == before


def test_a_port_that_goes_down_is_named(place: tuple[Arena, Fabric]) -> None:
    """By the rank whose port it is, or by its peer; the others learn from one of them which rank it was.

    The device reports it, or the transport, which waits for no acknowledgement longer than the device's retries.
    """
    arena, fabric = place
    before = rig.resources()
    port = fabric.servers[3].ports[1]  # to rank 1
    with arena.start(keep_reducing, ack_timeout=14) as ranks:
        wait_for_traffic(fabric, ranks)
        with rig.broken(fabric, port, f"link set {rig.netdev(port)} down"):
            errors = [rank.outcome(BOUND_S).error for rank in ranks]
    assert any("is DOWN here" in errors[rank] for rank in (1, 3)), errors
    assert not any("silent" in error for error in errors), errors
    assert all("rank 1: " in error or "rank 3: " in error for error in errors), errors
    assert all("at level 1" in error for error in errors), errors
    assert rig.resources() == before


def test_an_address_that_is_removed_is_named(place: tuple[Arena, Fabric]) -> None:
    arena, fabric = place
    port = fabric.servers[0].ports[0]
    with arena.start(keep_reducing) as ranks:
        wait_for_traffic(fabric, ranks)
        with rig.broken(fabric, port, f"addr del {rig.address(port)}/32 dev {rig.netdev(port)}"):
            errors = [rank.outcome(BOUND_S).error for rank in ranks]
    assert "has lost its address" in errors[0], errors
    assert all("rank 0" in error or "rank 1" in error for error in errors), errors


@contextmanager
def counted_memory() -> Iterator[None]:
    """Start processes without CAP_IPC_LOCK, so that RLIMIT_MEMLOCK applies.

    A process cannot drop the capability later: the verbs refuse calls with other rights than at the opening.
    """
    header = struct.pack("Ii", LINUX_CAPABILITY_VERSION_3, 0)
    had = ctypes.create_string_buffer(24)  # effective, permitted, inheritable; low and high words
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, had) == 0
    effective, *others = struct.unpack("6I", had)
    assert libc.capset(header, struct.pack("6I", effective & ~(1 << CAP_IPC_LOCK), *others)) == 0
    try:
        yield
    finally:
        assert libc.capset(header, had) == 0


def test_memory_that_may_not_be_registered(place: tuple[Arena, Fabric]) -> None:
    """One rank cannot register its array: all ranks name it and the limit to raise."""
    limit = 20 << 20

    def body(comm: Any) -> None:
        comm.barrier()
        if comm.rank == 1:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
        comm.all_reduce(np.zeros(limit // 4, np.float32))

    arena, _ = place
    with counted_memory():
        errors = [outcome.error for outcome in arena.run(body, BOUND_S)]
    assert f"RLIMIT_MEMLOCK is {limit} bytes" in errors[1], errors
    assert all("rank 1: " in error and "RLIMIT_MEMLOCK" in error for error in errors), errors
