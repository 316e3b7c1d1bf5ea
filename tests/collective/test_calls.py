# SPDX-License-Identifier: Apache-2.0
"""The collectives of a communicator over real connections, against their definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.collective.arena import Arena, arena

FABRICS = {
    "bcube": "{kind: bcube, n: 3, levels: 2}",
    "torus": "{kind: torus, dims: [4, 2]}",
    "fattree": "{kind: fattree, servers: 5, nics: 2}",
}


@pytest.fixture(scope="module", params=FABRICS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("arena"), FABRICS[request.param]) as made:
        yield made


def values(rank: int, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, rank)).integers(-99, 99, count).astype(np.float32)


class Case:
    """Every collective once, with shares of these sizes."""

    def __init__(self, comm: Any, counts: list[int] | None, share: int, root: int, **options: Any) -> None:
        self.comm, self.counts, self.root, self.options = comm, counts, root, options
        self.ranks, self.rank = comm.world_size, comm.rank
        self.sizes = counts or [share] * self.ranks
        self.edges = np.cumsum([0, *self.sizes])
        self.total = int(self.edges[-1])

    def mine(self, vector: np.ndarray) -> np.ndarray:
        return vector[self.edges[self.rank] : self.edges[self.rank + 1]]

    def check(self) -> list[str]:
        """Return the names of the collectives with wrong results."""
        checks = (self.reduces, self.all_gather, self.broadcast, self.reduce, self.gather, self.scatter)
        return [check.__name__ for check in (*checks, self.all_to_all) if not check()]

    def done(self, work: Any) -> None:
        if self.options:
            work.wait()
        else:
            assert work is None

    def reduces(self) -> bool:
        whole, output = values(self.rank, self.total), np.zeros(self.sizes[self.rank], np.float32)
        kept, right = whole.copy(), True
        every = np.stack([values(rank, self.total) for rank in range(self.ranks)])
        for op, expected in (
            ("sum", every.sum(0)),
            ("max", every.max(0)),
            ("mean", every.sum(0) / self.ranks),
        ):
            self.done(self.comm.reduce_scatter(output, whole, op, self.counts, **self.options))
            right &= np.array_equal(output, self.mine(expected.astype(np.float32)))
        return right and np.array_equal(whole, kept)

    def all_gather(self) -> bool:
        output = np.full(self.total, np.nan, np.float32)
        self.done(
            self.comm.all_gather(
                output, values(self.rank, self.sizes[self.rank]), self.counts, **self.options
            )
        )
        return np.array_equal(output, self.gathered())

    def gathered(self) -> np.ndarray:
        return np.concatenate([values(rank, size) for rank, size in enumerate(self.sizes)])

    def broadcast(self) -> bool:
        array = values(self.rank, self.total)
        self.done(self.comm.broadcast(array, self.root, **self.options))
        return np.array_equal(array, values(self.root, self.total))

    def reduce(self) -> bool:
        array = values(self.rank, self.total)
        self.done(self.comm.reduce(array, self.root, **self.options))
        every = np.stack([values(rank, self.total) for rank in range(self.ranks)])
        return np.array_equal(array, every.sum(0) if self.rank == self.root else every[self.rank])

    def gather(self) -> bool:
        output = np.full(self.total, np.nan, np.float32) if self.rank == self.root else None
        given = values(self.rank, self.sizes[self.rank])
        self.done(self.comm.gather(output, given, self.root, self.counts, **self.options))
        return output is None or np.array_equal(output, self.gathered())

    def scatter(self) -> bool:
        output = np.full(self.sizes[self.rank], np.nan, np.float32)
        given = values(self.root, self.total) if self.rank == self.root else None
        self.done(self.comm.scatter(output, given, self.root, self.counts, **self.options))
        return np.array_equal(output, self.mine(values(self.root, self.total)))

    def all_to_all(self) -> bool:
        table = None
        if self.counts:
            table = [[(s * d + s) % 7 * self.sizes[0] for d in range(self.ranks)] for s in range(self.ranks)]
        blocks = table or [self.sizes] * self.ranks
        output = np.full(sum(row[self.rank] for row in blocks), np.nan, np.float32)
        self.done(
            self.comm.all_to_all(output, values(self.rank, sum(blocks[self.rank])), table, **self.options)
        )
        expected = [
            values(source, sum(row))[sum(row[: self.rank]) : sum(row[: self.rank + 1])]
            for source, row in enumerate(blocks)
        ]
        return np.array_equal(output, np.concatenate(expected))


@pytest.mark.parametrize("exchange", ["default", "full"])
def test_every_collective(place: Arena, exchange: str) -> None:
    """With shares of no, one, some and many elements, equal and uneven ones, all roots in turns."""

    def body(comm: Any) -> list[str]:
        found = []
        for number, share in enumerate((0, 1, 3000)):
            found += Case(comm, None, share, number).check()
            uneven = [share * (rank % 3) for rank in range(comm.world_size)]
            found += Case(comm, uneven, 0, comm.world_size - 1 - number).check()
            comm.barrier()
        return found

    flat = "fattree" in place.file.read_text()
    full = ("full",) if exchange == "full" else ()
    for outcome in place.run(body, algorithm="mesh" if flat else "hips", exchange=full):
        assert (outcome.error, outcome.value) == ("", [])


def test_a_ring_forwards_what_it_does_not_keep(place: Arena) -> None:
    def body(comm: Any) -> list[str]:
        uneven = [rank * 11 for rank in range(comm.world_size)]
        return Case(comm, None, 30_000, 1).check() + Case(comm, uneven, 0, 2).check()

    for outcome in place.run(body, algorithm="ring"):
        assert (outcome.error, outcome.value) == ("", [])


def test_they_are_asynchronous_and_share_the_connections(place: Arena) -> None:
    """Works of several collectives are under way at once, among all_reduces."""

    def body(comm: Any) -> list[str]:
        gradients = [np.full(9_999, comm.rank, np.float32) for _ in range(6)]
        works = [comm.all_reduce(array, async_op=True) for array in gradients[:3]]
        shares = [np.full(100, comm.rank, np.float32) for _ in range(4)]
        outputs = [np.zeros(100 * comm.world_size, np.float32) for _ in shares]
        for output, share in zip(outputs, shares, strict=True):
            works.append(comm.all_gather(output, share, async_op=True))
        works += [comm.all_reduce(array, async_op=True) for array in gradients[3:]]
        found = Case(comm, None, 50, 1, async_op=True).check()
        for work in works:
            work.wait()
        total = sum(range(comm.world_size))
        assert all((array == total).all() for array in gradients)
        assert all((output == np.repeat(np.arange(comm.world_size), 100)).all() for output in outputs)
        return found

    for outcome in place.run(body, algorithm="mesh" if "fattree" in place.file.read_text() else "hips"):
        assert (outcome.error, outcome.value) == ("", [])


def test_wrong_arguments_are_refused_before_anything_is_sent(place: Arena) -> None:
    def body(comm: Any) -> list[str]:
        ranks, ten = comm.world_size, np.zeros(10, np.float32)
        calls: list[Any] = [
            lambda: comm.all_gather(ten, ten),
            lambda: comm.all_gather(ten, ten, counts=[10]),
            lambda: comm.reduce_scatter(ten, ten, "median"),
            lambda: comm.reduce_scatter(np.zeros(10, np.float64), np.zeros(10 * ranks, np.float32)),
            lambda: comm.broadcast(ten, ranks),
            lambda: comm.broadcast(np.zeros((4, 4), np.float32).T[:2]),
            lambda: comm.broadcast(np.zeros(3, np.uint8)),
            lambda: comm.gather(ten, ten, (comm.rank + 1) % ranks),
            lambda: comm.all_to_all(np.zeros(ranks + 1, np.float32), np.zeros(ranks + 1, np.float32)),
            lambda: comm.all_to_all(ten, ten, [[1] * ranks] * ranks),
        ]
        messages = []
        for call in calls:
            try:
                call()
                messages.append("accepted")
            except Exception as error:
                messages.append(f"{type(error).__name__}: {error}")
        comm.barrier()
        return messages

    expected = [
        "output: found 10 elements", "counts: found 1 numbers", "op 'median'", "dtype float64",
        "root: found", "not C-contiguous", "dtype uint8", "output: only rank", "allowed: a multiple of",
        "input: found 10",
    ]  # fmt: skip
    for outcome in place.run(body, algorithm="mesh"):
        assert not outcome.error
        for message, part in zip(outcome.value, expected, strict=True):
            assert message.startswith("InputError") and part in message, message


def test_different_collectives_are_an_error_that_names_both(place: Arena) -> None:
    def body(comm: Any) -> None:
        array = np.zeros(64, np.float32)
        if comm.rank == 0:
            comm.reduce(array, 1)
        else:
            comm.broadcast(array, 1)

    # A rank that awaits nothing, such as the root, may have left before.
    errors = [outcome.error for outcome in place.run(body, algorithm="mesh", timeout_s=5) if outcome.error]
    assert errors
    for error in errors:
        assert "broadcast from rank 1 of 64 x float32" in error, error
        assert "reduce (sum) to rank 1 of 64 x float32" in error, error
