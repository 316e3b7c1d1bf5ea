# SPDX-License-Identifier: Apache-2.0
"""The collectives of a communicator other than all_reduce, on arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.collectives import Collective
from hipsnet.collective.memory import as_array
from hipsnet.collective.placement import Placement, Ranges, Region
from hipsnet.collective.work import Work
from hipsnet.engine import reduction
from hipsnet.engine.engine import Piece
from hipsnet.engine.reduction import DTYPES
from hipsnet.errors import InputError

OPS = ("sum", "mean", "max", "min", "prod")
"""The operations of reductions."""

Counts = Sequence[int] | None
Array = NDArray[Any]


class Calls(ABC):
    """Arguments are numpy arrays, or CPU memory exported by DLPack or the buffer protocol; C-contiguous, of any
    shape, of dtype float16, bfloat16, float32, float64, int32 or int64. Inputs are not changed.

    Each rank has a share of the vector, in order of rank: equal ones, or `counts` elements, one number for each
    rank, the same on every rank. With `async_op`, methods return a `Work` at once, else None.

    All methods raise InputError for unsupported arguments, and CollectiveError if a peer fails or makes another
    call.
    """

    @property
    @abstractmethod
    def rank(self) -> int: ...

    @property
    @abstractmethod
    def world_size(self) -> int: ...

    @abstractmethod
    def _run(
        self,
        collective: Collective,
        count: int,
        pieces: Sequence[Piece],
        op: str,
        *,
        cuts: tuple[int, ...] = (),
        is_async: bool = False,
        finish: Callable[[], None] | None = None,
    ) -> Work: ...

    @abstractmethod
    def _touched(self, collective: Collective, count: int, itemsize: int, borders: tuple[int, ...]) -> Ranges:
        """The ranges that this rank sends or receives (`placement.touched`)."""

    def reduce_scatter(
        self, output: Any, input: Any, op: str = "sum", counts: Counts = None, async_op: bool = False
    ) -> Work | None:
        """Combine `input` over all ranks element by element; `output` gets this rank's share.

        `op`: sum, mean (integers are rounded toward zero), max, min or prod.
        """
        given, taken = self._flat(input), self._output(output, input)
        require_op(op)
        collective, edges = self._shares("reduce_scatter", taken.size, counts, 0)
        self._require_size("input", given, int(edges[-1]))
        self._require_size("output", taken, int(edges[self.rank + 1] - edges[self.rank]))
        work = given.copy()  # partial sums are added to it

        def finish() -> None:
            taken[:] = work[edges[self.rank] : edges[self.rank + 1]]
            if op == "mean":
                reduction.divide(taken, self.world_size)

        pieces = [Piece(work, has_result=False)]
        return self._started(collective, work.size, pieces, op, async_op, finish)

    def all_gather(
        self, output: Any, input: Any, counts: Counts = None, async_op: bool = False
    ) -> Work | None:
        """Copy the `input` of every rank to `output` on all ranks, in order of rank."""
        given, taken = self._flat(input), self._output(output, input)
        collective, edges = self._shares("all_gather", given.size, counts, 0)
        self._require_size("input", given, int(edges[self.rank + 1] - edges[self.rank]))
        self._require_size("output", taken, int(edges[-1]))
        taken[edges[self.rank] : edges[self.rank + 1]] = given
        return self._started(collective, taken.size, [Piece(taken)], "copy", async_op)

    def broadcast(self, memory: Any, root: int = 0, async_op: bool = False) -> Work | None:
        """Copy `memory` of rank `root` to `memory` of all other ranks."""
        array = self._output(memory, memory)
        return self._started(self._rooted("broadcast", root), array.size, [Piece(array)], "copy", async_op)

    def reduce(self, memory: Any, root: int = 0, op: str = "sum", async_op: bool = False) -> Work | None:
        """Combine `memory` over all ranks element by element, into `memory` of rank `root`."""
        array = self._output(memory, memory)
        require_op(op)
        is_root = self.rank == root
        piece = Piece(array if is_root else array.copy(), has_result=is_root)
        return self._started(self._rooted("reduce", root), array.size, [piece], op, async_op)

    def gather(
        self, output: Any, input: Any, root: int = 0, counts: Counts = None, async_op: bool = False
    ) -> Work | None:
        """Copy the `input` of every rank to `output` on rank `root`, in order of rank; others pass None."""
        given = self._flat(input)
        collective, edges = self._shares("gather", given.size, counts, root)
        start, stop = self._own(edges)
        self._require_size("input", given, stop - start)
        if self.rank != root:
            self._require_none("output", output, root)
            return self._placed(collective, edges, [Region(start, given)], [], given.dtype, async_op)
        taken = self._output(output, input)
        self._require_size("output", taken, int(edges[-1]))
        taken[start:stop] = given
        return self._started(collective, taken.size, [Piece(taken)], "copy", async_op)

    def scatter(
        self, output: Any, input: Any, root: int = 0, counts: Counts = None, async_op: bool = False
    ) -> Work | None:
        """Copy each rank's share of `input` on rank `root` to `output` of that rank; others pass None as input."""
        taken = self._output(output, output)
        collective, edges = self._shares("scatter", taken.size, counts, root)
        start, stop = self._own(edges)
        self._require_size("output", taken, stop - start)
        if self.rank != root:
            self._require_none("input", input, root)
            return self._placed(collective, edges, [], [Region(start, taken)], taken.dtype, async_op)
        given = self._flat(input)
        self._output(output, input)
        self._require_size("input", given, int(edges[-1]))
        taken[:] = given[start:stop]
        return self._started(collective, given.size, [Piece(given)], "copy", async_op)

    def all_to_all(
        self, output: Any, input: Any, counts: Sequence[Sequence[int]] | None = None, async_op: bool = False
    ) -> Work | None:
        """Copy block d of `input` to block r of `output` on rank d, where r is this rank, for all ranks d.

        The blocks are equal, or `counts[s][d]` elements from rank s to rank d, the same numbers on every rank.
        """
        given, taken, ranks = self._flat(input), self._output(output, input), self.world_size
        if counts is None:
            if given.size % ranks:
                raise InputError(
                    f"input: found {given.size} elements; allowed: a multiple of {ranks}, or counts"
                )
            collective, edges = Collective("all_to_all"), np.arange(ranks**2 + 1) * (given.size // ranks)
        else:
            table = tuple(int(number) for row in counts for number in row)
            collective = Collective("all_to_all", 0, table)
            edges = collective.shares(sum(table), ranks)
        mine, inputs = self.rank * ranks, np.diff(edges).reshape(ranks, ranks)
        self._require_size("input", given, int(inputs[self.rank].sum()))
        self._require_size("output", taken, int(inputs[:, self.rank].sum()))
        ends = np.concatenate([[0], np.cumsum(inputs[:, self.rank])]).tolist()
        gives = [Region(int(edges[mine]), given)]
        takes = [
            Region(int(edges[source * ranks + self.rank]), taken[ends[source] : ends[source + 1]])
            for source in range(ranks)
            if source != self.rank
        ]
        own = int(edges[mine + self.rank] - edges[mine])
        taken[ends[self.rank] : ends[self.rank + 1]] = given[own : own + int(inputs[self.rank, self.rank])]
        return self._placed(collective, edges, gives, takes, given.dtype, async_op)

    def _placed(
        self,
        collective: Collective,
        edges: NDArray[np.int64],
        gives: list[Region],
        takes: list[Region],
        dtype: Any,
        async_op: bool,
    ) -> Work | None:
        """Start a collective of which this rank touches parts of the vector only."""
        borders = sorted({edge for region in (*gives, *takes) for edge in (region.first, region.stop)})
        ranges = self._touched(collective, int(edges[-1]), np.dtype(dtype).itemsize, tuple(borders))
        placement = Placement(ranges, gives, takes, dtype)
        return self._started(collective, int(edges[-1]), placement.pieces, "copy", async_op, placement.store)

    def _started(
        self,
        collective: Collective,
        count: int,
        pieces: Sequence[Piece],
        op: str,
        async_op: bool,
        finish: Callable[[], None] | None = None,
    ) -> Work | None:
        work = self._run(collective, count, pieces, op, is_async=async_op, finish=finish)
        if async_op:
            return work
        work.wait()
        return None

    def _rooted(self, name: str, root: int) -> Collective:
        collective = Collective(name, root)
        collective.terms(0, self.world_size)  # checks the root
        return collective

    def _shares(
        self, name: str, share: int, counts: Counts, root: int
    ) -> tuple[Collective, NDArray[np.int64]]:
        """The collective and the edges of the shares; `share` is the size of each if there are no counts."""
        ranks = self.world_size
        numbers = (share,) * ranks if counts is None else tuple(int(number) for number in counts)
        if len(numbers) != ranks:
            raise InputError(f"counts: found {len(numbers)} numbers; allowed: {ranks}, one for each rank")
        collective = Collective(name, root, () if counts is None else numbers)
        collective.terms(sum(numbers), ranks)  # checks the root
        return collective, collective.shares(sum(numbers), ranks)

    def _own(self, edges: NDArray[np.int64]) -> tuple[int, int]:
        return int(edges[self.rank]), int(edges[self.rank + 1])

    def _flat(self, memory: Any) -> Array:
        array = as_array(memory)
        require_array(array)
        return array.reshape(-1)

    def _output(self, memory: Any, input: Any) -> Array:
        """An output array, of the same dtype as the input."""
        array, other = self._flat(memory), as_array(input)
        if not array.flags.writeable:
            raise InputError("the output is read-only")
        if array.dtype != other.dtype:
            raise InputError(f"the output is of dtype {array.dtype}, but the input of {other.dtype}")
        return array

    def _require_size(self, name: str, array: Array, size: int) -> None:
        if array.size != size:
            raise InputError(
                f"{name}: found {array.size} elements; needs {size} on rank {self.rank} of {self.world_size}"
            )

    def _require_none(self, name: str, memory: Any, root: int) -> None:
        if memory is not None:
            raise InputError(f"{name}: only rank {root}, the root, has one; pass None on rank {self.rank}")


def require_op(op: str) -> None:
    """Raise InputError unless `op` is an operation of reductions."""
    if op not in OPS:
        raise InputError(f"op {op!r} is not one of {', '.join(OPS)}")


def require_array(array: Array) -> None:
    """Raise InputError unless the engine can run on this array."""
    if array.dtype not in DTYPES:
        raise InputError(f"dtype {array.dtype} is not one of {', '.join(d.name for d in DTYPES)}")
    if not array.flags.c_contiguous:
        raise InputError("the array is not C-contiguous; pass a contiguous copy")
    if not array.flags.aligned:
        raise InputError(
            f"the array's address is not a multiple of {array.dtype.alignment} bytes; pass a copy"
        )
