# SPDX-License-Identifier: Apache-2.0
"""Each survivor reports the failed rank and the cause within the timeout; partial sums are never returned."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipsnet.errors import TransportError
from hipsnet.node import namespace
from hipsnet.transport.greeting import GREETING_BYTES
from tests.collective.arena import Arena, Outcome, Rank, arena

BOUND_S = 15.0  # far above the timeout, so that only a hang reaches it


@pytest.fixture
def bcube(tmp_path: Path) -> Iterator[Arena]:
    with arena(tmp_path, "{kind: bcube, n: 3, levels: 2}") as made:
        yield made


class KeepReducing:
    """Reduce until an error occurs; every result is the whole sum."""

    def __init__(self) -> None:
        self._under_way = multiprocessing.get_context("fork").Semaphore(0)

    def __call__(self, comm: Any) -> None:
        deadline = time.monotonic() + 4 * BOUND_S
        while time.monotonic() < deadline:
            array = np.full(300_000, comm.rank, np.float32)
            comm.all_reduce(array)
            assert (array == 36).all()
            self._under_way.release()

    def wait(self, ranks: list[Rank]) -> None:
        """Run as many collectives as there are ranks, so that all ranks have synchronized."""
        for _ in ranks:
            assert self._under_way.acquire(timeout=4 * BOUND_S)


def survivors(ranks: list[Rank], without: int) -> list[Outcome]:
    return [rank.outcome(BOUND_S) for number, rank in enumerate(ranks) if number != without]


def test_a_rank_that_dies_is_named_by_all(bcube: Arena) -> None:
    body = KeepReducing()
    with bcube.start(body) as ranks:
        body.wait(ranks)
        ranks[4].signal(signal.SIGKILL)
        for outcome in survivors(ranks, without=4):
            assert (
                "rank 4: it closed the connection" in outcome.error
                or "rank 4: Connection reset" in outcome.error
            )
            assert "at level" in outcome.error
            assert "bytes received" in outcome.error


def test_a_rank_that_is_stopped_is_named_by_all(bcube: Arena) -> None:
    body = KeepReducing()
    with bcube.start(body, warn_s=0.5, timeout_s=2.0) as ranks:
        body.wait(ranks)
        stopped_at = time.monotonic()
        ranks[7].signal(signal.SIGSTOP)
        for outcome in survivors(ranks, without=7):
            assert "rank 7: it has been silent for 2." in outcome.error
            assert "stage" in outcome.error
        assert time.monotonic() - stopped_at >= 1.5
        ranks[7].signal(signal.SIGCONT)
        assert ranks[7].outcome(BOUND_S).error  # and it reports that its peers declared it failed


def test_a_rank_that_exits_before_the_first_collective(bcube: Arena) -> None:
    def body(comm: Any) -> None:
        if comm.rank == 2:
            os._exit(0)
        comm.all_reduce(np.zeros(10, np.float32))

    with bcube.start(body) as ranks:
        for outcome in survivors(ranks, without=2):
            assert "rank 2" in outcome.error


def test_a_rank_that_never_starts_is_named_with_its_address(bcube: Arena) -> None:
    # Rank 3's greeting fails first: without the token its peers refuse it.
    with bcube.start(
        KeepReducing(), per_rank={3: {"token": "a token of its own"}}, start_timeout_s=1.5
    ) as ranks:
        outcomes = survivors(ranks, without=3)
        assert all(outcome.error for outcome in outcomes)
        neighbours = [outcomes[rank] for rank in (0, 3, 4, 5)]  # ranks 0, 4, 5, 6
        assert all("rank 3 (10." in outcome.error for outcome in neighbours), outcomes


@pytest.mark.parametrize(
    ("odd_one", "words"),
    [
        (lambda comm: comm.all_reduce(np.zeros(11, np.float32)), "sum of 11 x float32"),
        (lambda comm: comm.all_reduce(np.zeros(500_000, np.float32)), "sum of 500000 x float32"),
        (lambda comm: comm.all_reduce(np.zeros(10, np.float64)), "sum of 10 x float64"),
        (lambda comm: comm.all_reduce(np.zeros(10, np.float32), "max"), "max of 10 x float32"),
    ],
    ids=["size", "much-larger", "dtype", "operation"],
)
def test_another_call_on_one_rank(bcube: Arena, odd_one: Any, words: str) -> None:
    def body(comm: Any) -> None:
        comm.barrier()
        if comm.rank == 5:
            odd_one(comm)
        else:
            comm.all_reduce(np.zeros(10, np.float32))

    for outcome in bcube.run(body):
        assert words in outcome.error
        assert "sum of 10 x float32" in outcome.error


def test_another_algorithm_on_one_rank(bcube: Arena) -> None:
    with bcube.start(KeepReducing(), per_rank={8: {"algorithm": "ring"}}, start_timeout_s=3.0) as ranks:
        errors = [rank.outcome(BOUND_S).error for rank in ranks]
    assert all(errors)
    assert any("algorithm auto" in error and "algorithm ring" in error for error in errors), errors


def test_strangers_do_not_disturb_a_job(bcube: Arena) -> None:
    """A connection without the job's token that sends garbage is dropped; the job continues."""

    def body(comm: Any) -> float:
        array = np.ones(1000, np.float32)
        return float(comm.all_reduce(array)[0])

    with bcube.start(body, per_rank={0: {}}, start_timeout_s=20.0) as ranks:
        with namespace.inside(bcube.name):
            strangers = [_knock(GREETING_BYTES * bytes([n])) for n in range(3)]
        outcomes = [rank.outcome(BOUND_S) for rank in ranks]
        for stranger in strangers:
            stranger.close()
    assert [outcome.value for outcome in outcomes] == [9.0] * 9, outcomes


def _knock(words: bytes) -> socket.socket:
    """Connect to rank 8's first port, as soon as it listens, and send this."""
    deadline = time.monotonic() + BOUND_S
    while True:
        try:
            stranger = socket.create_connection(("10.0.0.19", 29472), timeout=1)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)
    stranger.sendall(words)
    return stranger


def test_after_a_failure_the_communicator_refuses(bcube: Arena) -> None:
    def body(comm: Any) -> str:
        with suppress(TransportError):
            comm.all_reduce(np.zeros(10 + (comm.rank == 1), np.float32))
        try:
            comm.all_reduce(np.zeros(10, np.float32))
        except TransportError as error:
            return str(error)
        return "went on"

    for outcome in bcube.run(body):
        assert "an earlier collective failed" in outcome.value


def test_a_slow_rank_is_logged_and_awaited(bcube: Arena) -> None:
    """Between the warning and the timeout nothing is lost."""

    def body(comm: Any) -> list[str]:
        import logging

        records: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("hipsnet").addHandler(handler)
        comm.barrier()  # all ranks have reached this point
        if comm.rank == 0:
            time.sleep(4.0)
        assert (comm.all_reduce(np.ones(100, np.float32)) == 9).all()
        return records

    outcomes = bcube.run(body, warn_s=2.0, timeout_s=BOUND_S)
    assert not any(outcome.error for outcome in outcomes), outcomes
    warnings = [line for outcome in outcomes for line in outcome.value]
    assert any("rank 0" in line and ("silent" in line or "has not called" in line) for line in warnings)
    assert all("rank 0" in line for line in warnings)  # ranks that wait themselves are not blamed


def test_an_interrupt_inside_a_call_ends_it_on_all_ranks(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("fork")
    together, late_may_enter = processes.Barrier(4), processes.Event()

    def body(comm: Any) -> list[str]:
        said = []
        comm.barrier()
        together.wait(BOUND_S)
        for _ in range(2):
            try:
                if comm.rank == 2:
                    late_may_enter.wait(BOUND_S)
                comm.all_reduce(np.zeros(100, np.float32))
            except (KeyboardInterrupt, TransportError) as error:
                said.append(f"{type(error).__name__}: {error}")
        return said

    why = "rank 1: its call ended with KeyboardInterrupt"
    with (
        arena(tmp_path, "{kind: bcube, n: 3, levels: 1}") as place,
        place.start(body, timeout_s=BOUND_S) as ranks,
    ):
        together.wait(BOUND_S)
        wait_until_asleep(ranks[1].process.pid)
        ranks[1].signal(signal.SIGINT)
        first, interrupted = (rank.outcome(BOUND_S) for rank in ranks[:2])
        late_may_enter.set()
        late = ranks[2].outcome(BOUND_S)
    assert why in first.value[0], first
    assert interrupted.value[0].startswith("KeyboardInterrupt"), interrupted
    assert why in late.value[0], late
    for outcome in (first, interrupted, late):
        assert "an earlier collective failed" in outcome.value[1], outcome


def wait_until_asleep(pid: int | None) -> None:
    """Wait until the process is in epoll_pwait2, where a call waits for its peers."""
    deadline = time.monotonic() + BOUND_S
    while "poll" not in Path(f"/proc/{pid}/wchan").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
