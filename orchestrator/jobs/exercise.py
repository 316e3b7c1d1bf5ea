# SPDX-License-Identifier: Apache-2.0
"""One collective as a job measures it: its arrays, the call, and the check of the results.

Rank r contributes the numbers of `pattern.contribution(r)`. As in nccl-tests, the size of a case is that of the
longest array of a rank, and the shares are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hipsnet.collective.collectives import Collective
from orchestrator.jobs import pattern
from orchestrator.jobs.pattern import Vector

SAME_EVERYWHERE = ("all_reduce", "all_gather", "broadcast", "barrier")
"""The collectives after which all ranks have the same results."""


class Exercise:
    """The arrays of one case on one rank: an input, an output, or both in one."""

    def __init__(self, communicator: Any, collective: Collective, count: int, dtype: np.dtype[Any]) -> None:
        self._communicator, self._collective, self._dtype = communicator, collective, dtype
        self._rank, self._ranks, self._count = communicator.rank, communicator.world_size, count
        self._share = count // self._ranks
        given, taken = self._sizes()
        self._given = np.empty(given, dtype)
        self._taken = self._given if taken is None else np.empty(taken, dtype)
        self._block = pattern.contribution(self._rank, max(1, given), dtype)

    def fill(self) -> None:
        """Write the input, and something else into the output."""
        if self._taken is not self._given:
            self._taken.fill(1)
        pattern.fill(self._given, self._block)

    def run(self, async_op: bool) -> Any:
        """Run the collective, or start it and return its work."""
        communicator, name, root = self._communicator, self._collective.name, self._collective.root
        given, taken, is_root = self._given, self._taken, self._rank == root
        calls: dict[str, Callable[[], Any]] = {
            "all_reduce": lambda: communicator.all_reduce(given, async_op=async_op),
            "reduce_scatter": lambda: communicator.reduce_scatter(taken, given, async_op=async_op),
            "all_gather": lambda: communicator.all_gather(taken, given, async_op=async_op),
            "broadcast": lambda: communicator.broadcast(given, root, async_op=async_op),
            "reduce": lambda: communicator.reduce(given, root, async_op=async_op),
            "gather": lambda: communicator.gather(taken if is_root else None, given, root, async_op=async_op),
            "scatter": lambda: communicator.scatter(
                taken, given if is_root else None, root, async_op=async_op
            ),
            "all_to_all": lambda: communicator.all_to_all(taken, given, async_op=async_op),
        }
        return calls[name]()

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        arrays = {id(array): array.nbytes for array in (self._given, self._taken, self._block)}
        return sum(arrays.values())

    @property
    def result(self) -> Vector:
        """The array with this rank's results."""
        return self._taken

    def wrong(self) -> int:
        """The number of wrong elements in the result of this rank."""
        name, start = self._collective.name, self._rank * self._share
        if name == "reduce" and self._rank != self._collective.root:
            return 0
        if self._collective.reduces:
            offset = start if name == "reduce_scatter" else 0
            sums = pattern.expected(self._ranks, self._count, self._dtype)
            return pattern.wrong(self._taken, pattern.shifted(sums, offset))
        bits = f"u{self._dtype.itemsize}"
        return sum(
            int(np.count_nonzero(found.view(bits) != expected.view(bits)))
            for found, expected in self._parts(name, start)
        )

    def _sizes(self) -> tuple[int, int | None]:
        """The elements of the input and of the output; None if they are one array."""
        is_root = self._rank == self._collective.root
        return {
            "reduce_scatter": (self._count, self._share),
            "all_gather": (self._share, self._count),
            "gather": (self._share, self._count if is_root else 0),
            "scatter": (self._count if is_root else 0, self._share),
            "all_to_all": (self._count, self._count),
        }.get(self._collective.name, (self._count, None))

    def _parts(self, name: str, start: int) -> Sequence[tuple[Vector, Vector]]:
        """The parts of the result with the numbers that a rank has contributed to each."""
        root, share = self._collective.root, self._share
        if name in ("broadcast", "scatter"):
            offset = start if name == "scatter" else 0
            return [(self._taken, self._numbers(root, self._count, offset, len(self._taken)))]
        if name == "gather" and self._rank != root:
            return []
        inside, whole = (start, self._count) if name == "all_to_all" else (0, share)
        return [
            (self._taken[source * share :][:share], self._numbers(source, whole, inside, share))
            for source in range(self._ranks)
        ]

    def _numbers(self, rank: int, count: int, start: int, length: int) -> Vector:
        """The elements [start, start + length) of an input of `count` elements of a rank."""
        return pattern.contribution(rank, max(1, count), self._dtype).take(
            np.arange(start, start + length), mode="wrap"
        )
