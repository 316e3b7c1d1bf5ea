# SPDX-License-Identifier: Apache-2.0
"""Collectives on RoCEv2 in userspace: every algorithm, type and size, lossy cables, and killed peers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipsnet.engine.reduction import DTYPES
from hipsnet.node.forwarding import frames_by_reason, read_counters, set_loss
from hipsnet.settings import ALGORITHMS
from hipsnet.stack.ports.loop import core
from orchestrator.provision import removal
from tests.collective.arena import Outcome
from tests.lab.rig import Lab
from tests.stack.ranks import run, started

SIZES = (1, 2, 3, 7, 63, 1000, 4097, 100_003)
NAMES = iter("abcdefgh")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    core()
    yield from provisioned(tmp_path_factory.mktemp("lab"), "bcube", {"n": 2, "levels": 2}, mtu=9000)


def provisioned(
    folder: Path, kind: str, shape: dict[str, Any], mtu: int, rate: str = "unlimited"
) -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("root: makes network namespaces")
    name = f"tx{os.getpid():x}{next(NAMES)}"
    made = Lab(name, folder / f"{name}.yaml", {})
    made.edit(version=1, name=name, fabric={"kind": kind, **shape}, link={"rate": rate, "mtu": mtu})
    try:
        made.provision()
        yield made
    finally:
        removal.destroy(name)


def sums(comm: Any) -> list[str]:
    """Check every size and type; return the errors."""
    wrong = []
    for dtype in DTYPES:
        for size in SIZES:
            mine = (np.arange(size) % 13 + comm.rank).astype(dtype)
            ranks = comm.world_size
            expected = ((np.arange(size) % 13) * ranks + ranks * (ranks - 1) // 2).astype(dtype)
            comm.all_reduce(mine)
            if not np.array_equal(mine, expected):
                wrong.append(f"{dtype} {size}")
    return wrong


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sums_of_every_size_and_type(lab: Lab, algorithm: str) -> None:
    before = read_counters(lab.name, "s00")
    outcomes = run(lab, sums, algorithm=algorithm)
    assert outcomes == [Outcome(value=[])] * 4
    after = read_counters(lab.name, "s00")
    assert after["local_roce"].sum() - before["local_roce"].sum() > len(DTYPES) * len(SIZES)


def ones(comm: Any) -> float:
    array = np.ones(1_000_000, np.float32)
    comm.all_reduce(array)
    assert (array == comm.world_size).all()
    return float(array[0])


def test_cables_that_lose_frames(lab: Lab) -> None:
    for port in (0, 1):
        set_loss(lab.name, "s01", port, 10_000)
    try:
        assert run(lab, ones, ack_timeout=12) == [Outcome(value=4.0)] * 4
    finally:
        for port in (0, 1):
            set_loss(lab.name, "s01", port, 0)
    assert frames_by_reason(read_counters(lab.name, "s01"))["drop_loss"] > 0


def endless(comm: Any) -> None:
    while True:
        comm.all_reduce(np.ones(50_000, np.float32))


def wait_until_busy(lab: Lab) -> None:
    """Until the endless job has come to its sums."""
    begun, deadline = read_counters(lab.name, "s00")["local_roce"].sum(), time.monotonic() + 20
    while read_counters(lab.name, "s00")["local_roce"].sum() < begun + 500:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_peer_is_named_and_the_next_job_runs(lab: Lab) -> None:
    with started(lab, endless) as ranks:
        wait_until_busy(lab)
        ranks[3].signal(signal.SIGKILL)
        outcomes = [rank.outcome(10) for rank in ranks]
    assert outcomes[3].error == "killed"
    for outcome in outcomes[:3]:
        assert "rank 3" in outcome.error and "closed the connection" in outcome.error
    assert run(lab, ones) == [Outcome(value=4.0)] * 4


def silent(comm: Any) -> float:
    if comm.rank == 2:
        time.sleep(3)
    return ones(comm)


def test_a_rank_that_computes_for_long_is_awaited(lab: Lab) -> None:
    assert run(lab, silent) == [Outcome(value=4.0)] * 4


def computing(comm: Any) -> float:
    """Collectives of a few bytes, each followed by more time without one than a peer may be silent."""
    for _ in range(3):
        array = np.ones(2, np.float32)
        comm.all_reduce(array)
        assert (array == comm.world_size).all()
        time.sleep(2.5)
    return ones(comm)


def test_acknowledgements_leave_before_a_collective_returns(lab: Lab) -> None:
    """Acknowledgements that wait for others leave before the collective returns."""
    assert run(lab, computing, timeout_s=1.5, warn_s=1) == [Outcome(value=4.0)] * 4


def test_a_second_job_on_the_same_ports_is_refused(lab: Lab) -> None:
    with started(lab, endless) as first:
        wait_until_busy(lab)
        assert all(rank.process.is_alive() for rank in first)
        outcomes = run(lab, ones, port=29999, start_timeout_s=5)
    assert all("another socket has this queue" in outcome.error for outcome in outcomes)


@pytest.mark.parametrize("mtu", [1500, 3506])
def test_small_frames(tmp_path: Path, mtu: int) -> None:
    for small in provisioned(tmp_path, "torus", {"dims": [3]}, mtu):
        assert run(small, ones) == [Outcome(value=3.0)] * 3
