# SPDX-License-Identifier: Apache-2.0
"""All-reduce over real connections: correct sums, and the same bits on every rank and in every run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from hipsnet.errors import InputError
from tests.collective.arena import Arena, arena

FABRICS = {
    "bcube": "{kind: bcube, n: 3, levels: 2}",
    "torus": "{kind: torus, dims: [3, 2]}",
    "fattree": "{kind: fattree, servers: 5, nics: 2}",
}
DTYPES = (np.float16, bfloat16, np.float32, np.float64, np.int32, np.int64)
OPERATIONS = ("sum", "mean", "max", "min", "prod")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Arena]:
    with arena(tmp_path, FABRICS[request.param]) as made:
        yield made


@pytest.fixture(scope="module")
def bcube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("arena"), FABRICS["bcube"]) as made:
        yield made


def vector(rank: int, count: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """Whole numbers small enough that every dtype holds their sums and products over nine ranks exactly."""
    return np.random.default_rng((seed, rank)).integers(1, 3, count).astype(dtype)


def expected(world_size: int, count: int, dtype: Any, operation: str, seed: int = 0) -> np.ndarray:
    rows = np.stack([vector(rank, count, np.float64, seed) for rank in range(world_size)])
    if operation == "mean":
        total = rows.sum(0)
        return (total // world_size if np.dtype(dtype).kind == "i" else total / world_size).astype(dtype)
    return getattr(rows, operation)(0).astype(dtype)


@pytest.mark.parametrize(
    ("place", "algorithm"),
    [
        *((fabric, algorithm) for fabric in FABRICS for algorithm in ("ring", "mesh", "ps")),
        *((fabric, "hips") for fabric in ("bcube", "torus")),
    ],
    indirect=["place"],
)
def test_odd_sizes(place: Arena, algorithm: str) -> None:
    counts = (0, 1, 2, place.world_size - 1, 17, 1009, 100_003)

    def body(comm: Any) -> list[bytes]:
        return [comm.all_reduce(vector(comm.rank, n, np.float32)).tobytes() for n in counts]

    for outcome in place.run(body, algorithm=algorithm, chunk_bytes=4096 * 5):
        assert not outcome.error, outcome.error
        correct = [expected(place.world_size, n, np.float32, "sum").tobytes() for n in counts]
        assert outcome.value == correct


def test_every_dtype_and_operation(bcube: Arena) -> None:
    cases = [(np.dtype(dtype), operation) for dtype in DTYPES for operation in OPERATIONS]

    def body(comm: Any) -> list[bytes]:
        return [comm.all_reduce(vector(comm.rank, 501, d), op).tobytes() for d, op in cases]

    for outcome in bcube.run(body):
        assert not outcome.error, outcome.error
        for (dtype, operation), found in zip(cases, outcome.value, strict=True):
            correct = expected(9, 501, dtype, operation)
            if operation == "mean" and dtype.kind != "i":
                # The sum is exact; only the division rounds, in the array's own dtype.
                correct = expected(9, 501, dtype, "sum") / dtype.type(9)
            assert found == correct.tobytes(), (dtype, operation)


@pytest.mark.parametrize("exchange", [("mesh",), ("ring",), ("ps",), ("ring", "mesh"), ("ps", "ring")])
def test_every_exchange_inside_the_levels(bcube: Arena, exchange: tuple[str, ...]) -> None:
    def body(comm: Any) -> bytes:
        return comm.all_reduce(vector(comm.rank, 12_345, np.int64)).tobytes()

    for outcome in bcube.run(body, exchange=exchange):
        assert not outcome.error, outcome.error
        assert outcome.value == expected(9, 12_345, np.int64, "sum").tobytes()


def test_torus_one_way(tmp_path_factory: pytest.TempPathFactory) -> None:
    def body(comm: Any) -> bytes:
        return comm.all_reduce(vector(comm.rank, 5_000, np.float32)).tobytes()

    with arena(tmp_path_factory.mktemp("arena"), "{kind: torus, dims: [3, 3]}") as torus:
        for one_way in (True, False):
            for outcome in torus.run(body, one_way=one_way):
                assert not outcome.error, outcome.error
                assert outcome.value == expected(9, 5_000, np.float32, "sum").tobytes()


def test_the_same_bits_on_every_rank_and_in_every_run(bcube: Arena) -> None:
    """Rounding depends on the order of the sums, so the order of arrival must not affect it."""

    def body(comm: Any) -> list[bytes]:
        values = np.random.default_rng(comm.rank).standard_normal(70_001).astype(np.float32)
        return [comm.all_reduce(values.copy()).tobytes() for _ in range(5)]

    results = {
        bits for _ in range(2) for outcome in bcube.run(body, chunk_bytes=8192) for bits in outcome.value
    }
    assert len(results) == 1


def test_calls_in_a_row_do_not_mix(bcube: Arena) -> None:
    """Early ranks are a collective ahead of late ones; each result still belongs to its call."""

    def body(comm: Any) -> list[bytes]:
        results = []
        for call in range(60):
            results.append(comm.all_reduce(vector(comm.rank, 1 + 97 * (call % 7), np.int64, call)).tobytes())
            if call % 9 == 8:
                comm.barrier()
        return results

    for outcome in bcube.run(body):
        assert not outcome.error, outcome.error
        for call, found in enumerate(outcome.value):
            assert found == expected(9, 1 + 97 * (call % 7), np.int64, "sum", call).tobytes()


def test_staging_grows_with_the_calls(bcube: Arena) -> None:
    """Some ranks enter a larger call while others are in the one before it, or are late for it."""
    sizes = (10, 50_000, 300, 200_000, 7, 60_000, 600_000, 11, 600_000)

    def body(comm: Any) -> list[bytes]:
        results = []
        for call, size in enumerate(sizes):
            time.sleep((comm.rank + call) % 3 * 0.02)
            results.append(comm.all_reduce(vector(comm.rank, size, np.int64, call)).tobytes())
        return results

    for outcome in bcube.run(body):
        assert not outcome.error, outcome.error
        for call, (size, found) in enumerate(zip(sizes, outcome.value, strict=True)):
            assert found == expected(9, size, np.int64, "sum", call).tobytes()


def test_shape_is_kept_and_the_array_itself_is_changed(bcube: Arena) -> None:
    def body(comm: Any) -> tuple[Any, bool]:
        array = np.ones((3, 4, 5), np.float32)
        result = comm.all_reduce(array)
        return array.tolist(), result is array

    for outcome in bcube.run(body):
        assert outcome.value == (np.full((3, 4, 5), 9.0).tolist(), True)


def test_what_cannot_be_reduced_is_refused_before_anything_is_sent(bcube: Arena) -> None:
    read_only = np.zeros(4, np.float32)
    read_only.flags.writeable = False
    wrong = [
        (np.zeros(4, np.complex64), "sum", "complex64"),
        (np.zeros((4, 4), np.float32)[:, 1], "sum", "C-contiguous"),
        (np.zeros(9, np.uint8)[1:].view(np.float32), "sum", "multiple of 4 bytes"),
        (read_only, "sum", "writable"),
        ([1.0, 2.0], "sum", "numpy array"),
        (np.zeros(4, np.float32), "median", "median"),
    ]

    def body(comm: Any) -> list[str]:
        found = []
        for array, operation, _ in wrong:
            try:
                comm.all_reduce(array, operation)
            except InputError as error:
                found.append(str(error))
        comm.barrier()  # the communicator still works
        return found

    for outcome in bcube.run(body):
        assert not outcome.error, outcome.error
        for (_, _, word), message in zip(wrong, outcome.value, strict=True):
            assert word in message
