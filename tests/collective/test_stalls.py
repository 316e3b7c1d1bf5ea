# SPDX-License-Identifier: Apache-2.0
"""Whatever fails inside a call, every rank ends with the same reason and without a partial sum."""

from __future__ import annotations

import multiprocessing
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipsnet.collective.protocol import Call, Credit, Message, Ready, pack
from hipsnet.errors import CollectiveError, TransportError
from tests.collective.arena import arena
from tests.collective.lossy import COUNT, RANKS, job

BOUND_S = 30.0
CALL = Call(COUNT, "int64", "sum")


def texts(errors: list[BaseException | None]) -> list[str]:
    assert all(isinstance(error, CollectiveError) for error in errors), errors
    return [str(error) for error in errors]


def test_nothing_lost_is_a_sum() -> None:
    with job() as made:
        assert made.all_reduce() == [None] * RANKS
        assert all((array == 6).all() for array in made.arrays)


def test_a_write_that_is_lost_is_noticed_by_the_next_one() -> None:
    with job({0: lambda connection, posted: posted == 5}) as made:
        errors = texts(made.all_reduce())
    assert all("rank 0: it wrote segment 6 out of turn, with 5 of " in error for error in errors), errors


def test_a_last_write_that_is_lost_is_noticed_by_a_heartbeat() -> None:
    with job(timeout_s=20.0) as made:
        last = len(made.plans[0].sends[0]) - 1
    began = time.monotonic()
    with job({0: lambda connection, posted: connection == 0 and posted == last}, timeout_s=20.0) as made:
        *failed, finished = made.all_reduce()
    errors = texts(failed)
    assert finished is None  # rank 2 has already completed
    assert all(f"rank 0: it has sent {last + 1} segments, and {last} arrived" in e for e in errors), errors
    assert time.monotonic() - began < 20.0  # before any time-out


def test_a_ready_that_is_lost_is_noticed_by_a_heartbeat() -> None:
    def loses(connection: int, posted: Message | int) -> bool:
        return connection == 1 and isinstance(posted, Ready)

    with job({0: loses}, timeout_s=20.0) as made:
        errors = texts(made.all_reduce())
    assert all("rank 0: it is in collective 1 without a READY" in error for error in errors), errors


def test_ranks_that_are_alive_without_progress_end_with_one_culprit() -> None:
    """Rank 1 loses its credits: rank 0 waits for them, and all others wait for rank 0, all of them alive."""

    def loses(connection: int, posted: Message | int) -> bool:
        return isinstance(posted, Credit)

    with job({1: loses}, timeout_s=1.0) as made:
        errors = texts(made.all_reduce())
    assert all("no rank has made progress for 2." in error for error in errors), errors
    culprits = {error.partition("and rank ")[2].partition(" is furthest")[0] for error in errors}
    assert len(culprits) == 1, errors


def test_slow_progress_is_no_stall() -> None:
    """Rank 0 takes several times the limit for its share, while the others wait for it."""

    def slowly(target: Any, other: Any) -> None:
        time.sleep(0.1)
        np.add(target, other, out=target)

    with job(timeout_s=1.0) as made:
        began = time.monotonic()
        assert made.all_reduce({0: slowly}) == [None] * RANKS
        assert time.monotonic() - began > 2.5  # the limit is 2 s
        assert all((array == 6).all() for array in made.arrays)


def test_a_reduction_that_raises_ends_the_call_on_all_ranks() -> None:
    def fails(target: Any, other: Any) -> None:
        raise FloatingPointError("overflow encountered in add")

    with job() as made:
        errors = made.all_reduce({2: fails})
        assert isinstance(errors.pop(), FloatingPointError)
        why = "rank 2: its call ended with FloatingPointError: overflow encountered in add"
        assert all(why in error for error in texts(errors)), errors
        again = texts(made.all_reduce())
        assert all("an earlier collective failed: " + why in error for error in again), again


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([b""], "it sent a malformed control message: it is empty"),
        ([b"\x00"], "it sent a malformed control message: a READY has"),
        ([b"\x2a" * 40], "it sent a malformed control message: its kind is 42"),
        ([pack(Credit(7))], "it has emptied 7 staging slots, of 0 that were filled"),
        ([pack(Ready(2, 1, 1, 0, CALL))], "it entered collective 2"),
        ([pack(Ready(1, 1, 1, 0, Call(1, "int8", "max")))], "it entered collective 1, max of 1 x int8"),
        ([pack(Ready(n, 1, 1, 0, CALL)) for n in (1, 2)], "it entered collective 2, with 0 of"),
        ([pack(Ready(1, 1, 1, 0, CALL))] * 2, "it entered collective 1 out of turn, during 1"),
    ],
    ids=["empty", "short", "kind", "credit", "ahead", "mismatch", "missing", "twice"],
)
def test_an_invalid_message_is_an_error_that_names_its_sender(messages: list[bytes], reason: str) -> None:
    """Rank 1 sends only these messages; ranks 0 and 2 raise at once."""
    with job(timeout_s=20.0) as made:
        for message in messages:
            for connection in range(2):
                made.ends[1].transport.post_message(connection, message)
        made.ends[1].transport.drain(5.0)
        began = time.monotonic()
        errors = texts(made.all_reduce(ranks=(0, 2)))
    assert all(f"rank 1: {reason}" in error for error in errors), errors
    assert time.monotonic() - began < 20.0


def test_an_interrupt_inside_a_call_ends_it_on_all_ranks(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("fork")
    together, late_may_enter = processes.Barrier(RANKS + 1), processes.Event()

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
    """Wait until the process is in ppoll, where a call waits for its peers."""
    deadline = time.monotonic() + BOUND_S
    while "poll" not in Path(f"/proc/{pid}/wchan").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
