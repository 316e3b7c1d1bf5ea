# SPDX-License-Identifier: Apache-2.0
"""Collectives under way at once: several calls, several arrays, several threads, callbacks, and their errors."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipsnet.errors import CollectiveError, InputError
from hipsnet.node import namespace
from tests.collective.arena import Arena, arena
from tests.collective.test_engine import expected, vector

BOUND_S = 30.0


@pytest.fixture(scope="module")
def bcube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("arena"), "{kind: bcube, n: 2, levels: 2}") as made:
        yield made


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Arena]:
    with arena(tmp_path, "{kind: torus, dims: [2]}") as made:
        yield made


def values(place: Arena, body: Any, **settings: Any) -> list[Any]:
    outcomes = place.run(body, **settings)
    assert not any(outcome.error for outcome in outcomes), outcomes
    return [outcome.value for outcome in outcomes]


def test_more_calls_than_the_window_has_places(bcube: Arena) -> None:
    """Nobody waits before all are submitted; then in another order."""
    counts = [(1, 900, 60_000, 200_000)[n % 4] + n for n in range(80)]

    def body(comm: Any) -> list[bytes]:
        arrays = [vector(comm.rank, count, np.int64, n) for n, count in enumerate(counts)]
        works = [comm.all_reduce(array, async_op=True) for array in arrays]
        for work in reversed(works):
            work.wait()
            assert work.is_completed()
            assert work.exception() is None
        return [array.tobytes() for array in arrays]

    correct = [expected(4, count, np.int64, "sum", n).tobytes() for n, count in enumerate(counts)]
    assert values(bcube, body) == [correct] * 4


def test_calls_that_nobody_waits_for_are_completed_by_close(bcube: Arena) -> None:
    def body(comm: Any) -> bool:
        array = vector(comm.rank, 300_000, np.int64)
        work = comm.all_reduce(array, async_op=True)
        comm.close()
        return work.is_completed() and (array == expected(4, 300_000, np.int64, "sum")).all()

    assert values(bcube, body) == [True] * 4


@pytest.mark.parametrize("op", ["sum", "mean"])
def test_several_arrays_form_one_vector(bcube: Arena, op: str) -> None:
    """Large ones in place, small ones packed, empty ones, and any order of them."""
    sizes = [3, 40_000, 0, 17, 100_001, 8_192, 8_191, 1]

    def body(comm: Any) -> list[bytes]:
        arrays = [vector(comm.rank, size, np.float64, n) for n, size in enumerate(sizes)]
        arrays[1] = arrays[1].reshape(40, 1000)
        before = [array.ctypes.data for array in arrays]
        found = comm.all_reduce(arrays, op)
        assert found is arrays
        assert before == [array.ctypes.data for array in found]
        return [array.tobytes() for array in arrays]

    correct = [expected(4, size, np.float64, op, n).tobytes() for n, size in enumerate(sizes)]
    for chunk in (64 << 10, 1 << 20):
        assert values(bcube, body, chunk_bytes=chunk) == [correct] * 4


def test_more_large_arrays_than_the_engine_can_map(pair: Arena) -> None:
    def body(comm: Any) -> bool:
        arrays = [np.full(16_384 + n, n + comm.rank, np.float32) for n in range(70)]
        comm.all_reduce(arrays)
        return all((array == 2 * n + 1).all() for n, array in enumerate(arrays))

    assert values(pair, body) == [True] * 2


def test_arrays_that_do_not_form_a_vector_are_refused(pair: Arena) -> None:
    def body(comm: Any) -> list[str]:
        found = []
        for arrays in ([], [np.zeros(3, np.float32), np.zeros(3, np.float64)]):
            try:
                comm.all_reduce(arrays)
            except InputError as error:
                found.append(str(error))
        comm.barrier()
        return found

    for empty, mixed in values(pair, body):
        assert "at least one array" in empty
        assert "float32 and float64" in mixed


def test_the_same_size_in_other_arrays_is_a_mismatch(pair: Arena) -> None:
    def body(comm: Any) -> None:
        comm.all_reduce([np.zeros(20_000 + comm.rank), np.zeros(20_000 - comm.rank)])

    for outcome in pair.run(body):
        assert "divided into other arrays" in outcome.error


def test_threads_with_their_own_calls(bcube: Arena) -> None:
    """Two threads of each rank take turns in submitting, and wait at the same time."""

    def body(comm: Any) -> list[bytes]:
        results: dict[int, bytes] = {}
        turns = [threading.Event() for _ in range(41)]
        turns[0].set()

        def run(first: int) -> None:
            for n in range(first, 40, 2):
                array = vector(comm.rank, 1 + 3_000 * (n % 5), np.int64, n)
                assert turns[n].wait(BOUND_S)
                work = comm.all_reduce(array, async_op=True)
                turns[n + 1].set()
                work.wait()
                results[n] = array.tobytes()

        threads = [threading.Thread(target=run, args=(first,)) for first in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        return [results[n] for n in range(40)]

    correct = [expected(4, 1 + 3_000 * (n % 5), np.int64, "sum", n).tobytes() for n in range(40)]
    assert values(bcube, body) == [correct] * 4


def test_another_order_of_submission_is_an_error_on_every_rank(bcube: Arena) -> None:
    def body(comm: Any) -> None:
        counts = (10, 20) if comm.rank == 2 else (20, 10)
        works = [comm.all_reduce(np.zeros(count, np.float32), async_op=True) for count in counts]
        for work in works:
            work.wait()

    for outcome in bcube.run(body):
        assert "sum of 10 x float32" in outcome.error
        assert "sum of 20 x float32" in outcome.error
        assert "same order" in outcome.error


def test_callbacks_run_once_with_results_in_place(bcube: Arena) -> None:
    def body(comm: Any) -> tuple[list[int], bool]:
        seen: list[int] = []
        done = threading.Event()
        arrays = [vector(comm.rank, 50_000, np.int64, n) for n in range(6)]

        def on_done(n: int, work: Any) -> None:
            assert work.is_completed()
            assert (arrays[n] == expected(4, 50_000, np.int64, "sum", n)).all()
            seen.append(n)
            if len(seen) == len(arrays):
                done.set()

        def broken(work: Any) -> None:
            raise ValueError("this is logged")

        for n, array in enumerate(arrays):
            work = comm.all_reduce(array, async_op=True)
            work.add_done_callback(broken)
            work.add_done_callback(lambda work, n=n: on_done(n, work))
        assert done.wait(BOUND_S)
        late: list[Any] = []
        work.add_done_callback(late.append)
        return sorted(seen), late == [work]

    assert values(bcube, body) == [(list(range(6)), True)] * 4


def test_a_callback_may_start_and_await_collectives(pair: Arena) -> None:
    def body(comm: Any) -> list[float]:
        second = np.ones(10, np.float32)
        first = comm.all_reduce(np.ones(10, np.float32), async_op=True)
        done = threading.Event()

        def follow(work: Any) -> None:
            comm.all_reduce(second)
            done.set()

        first.add_done_callback(follow)
        assert done.wait(BOUND_S)
        return second.tolist()

    assert values(pair, body) == [[2.0] * 10] * 2


def test_a_wait_with_a_timeout_leaves_the_collective_under_way(pair: Arena) -> None:
    def body(comm: Any) -> bool:
        array = np.ones(10, np.float32)
        if comm.rank == 0:
            work = comm.all_reduce(array, async_op=True)
            assert not work.is_completed()
            with pytest.raises(TimeoutError):
                work.wait(0.05)
            assert work.exception() is None
            go.set()
            work.wait(BOUND_S)
        else:
            assert go.wait(BOUND_S)
            comm.all_reduce(array)
        return bool((array == 2).all())

    go = multiprocessing.get_context("fork").Event()
    assert values(pair, body) == [True] * 2


def test_every_work_under_way_has_the_error(pair: Arena) -> None:
    """Rank 1 starts its calls when rank 0 has started all of its own; its first one does not match."""

    def body(comm: Any) -> list[str]:
        called = threading.Event()
        works = []
        if comm.rank == 0:
            works = [comm.all_reduce(np.zeros(100_000, np.float32), async_op=True) for _ in range(3)]
            works[-1].add_done_callback(lambda work: called.set())
            started.set()
            for work in works:
                with pytest.raises(CollectiveError):
                    work.wait()
            assert called.wait(BOUND_S)
        else:
            assert started.wait(BOUND_S)
            with suppress(CollectiveError):
                comm.all_reduce(np.zeros(10, np.float32))
        with pytest.raises(CollectiveError, match="an earlier collective failed") as refused:
            comm.barrier()
        comm.close()
        return [*(str(work.exception()) for work in works), str(refused.value)]

    started = multiprocessing.get_context("fork").Event()
    (*under_way, refused), last = values(pair, body)
    assert len(under_way) == 3
    for number, text in enumerate(under_way, 1):
        assert f"rank 0: collective {number} failed" in text
    for text in (*under_way, refused, *last):
        assert "sum of 10 x float32" in text
        assert "sum of 100000 x float32" in text


def test_an_exception_of_the_program_ends_the_calls_under_way(pair: Arena) -> None:
    """Rank 1 leaves its `with` block while its call waits: its second transfer needs the first of rank 0."""

    def body(comm: Any) -> str:
        comm.barrier()
        if comm.rank == 1:
            with pytest.raises(ZeroDivisionError), comm:
                comm.all_reduce(np.zeros(10), async_op=True)
                raise ZeroDivisionError("a bug")
            left.set()
            return ""
        assert left.wait(BOUND_S)
        try:
            comm.all_reduce(np.zeros(10))
        except CollectiveError as error:
            return str(error)
        return "it went on"

    left = multiprocessing.get_context("fork").Event()
    waiting, _ = values(pair, body, algorithm="hips")
    assert "rank 1: its call ended with ZeroDivisionError: a bug" in waiting


def test_a_closed_communicator_refuses(pair: Arena) -> None:
    def body(comm: Any) -> str:
        comm.close()
        comm.close()
        try:
            comm.barrier()
        except CollectiveError as error:
            return str(error)
        return "it went on"

    assert [text.partition(": ")[2] for text in values(pair, body)] == ["the communicator is closed"] * 2


@pytest.mark.parametrize("is_waiting", [False, True], ids=["idle", "under way"])
def test_a_program_that_never_closes_ends_without_a_crash(pair: Arena, is_waiting: bool) -> None:
    """Its progress thread has started; the interpreter frees arrays and libraries meanwhile."""
    program = f"""
import numpy as np, hipsnet, hipsnet.errors
comm = hipsnet.init()
comm.all_reduce(np.ones(10_000), async_op=True).wait()
if {is_waiting} and comm.rank == 0:
    work = comm.all_reduce(np.ones(2_000_000), async_op=True)
    work.add_done_callback(print)
elif {is_waiting}:
    try:
        comm.all_reduce(np.ones(2_000_000)), comm.barrier()
    except hipsnet.errors.CollectiveError as error:
        print(error)
"""
    environment = {
        **os.environ,
        "HIPSNET_TOPOLOGY": str(pair.file),
        "WORLD_SIZE": "2",
        "HIPSNET_TOKEN": "t" * 16,
    }
    with namespace.inside(pair.name):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", program],
                env={**environment, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(2)
        ]
    said = [process.communicate(timeout=2 * BOUND_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
