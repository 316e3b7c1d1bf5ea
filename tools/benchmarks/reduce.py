# SPDX-License-Identifier: Apache-2.0
"""Reduction throughput of one core by dtype, compared with numpy and the machine's memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from hipsnet.engine.reduction import DTYPES
from hipsnet.engine.reduction import reduce as combine

app = typer.Typer()

CACHED_BYTES = 256 << 10
NUMPY: dict[str, Callable[..., object]] = {"sum": np.add, "max": np.maximum}


@app.command()
def reduce(
    mebibytes: Annotated[int, typer.Option(help="size of a vector, in MiB: beyond every cache")] = 64,
    turns: Annotated[int, typer.Option(help="measurements of each; the median counts")] = 9,
) -> None:
    """Reductions on one core, in GB/s: of chunks in cache, beside numpy's, and of vectors in memory."""
    table = Table(title="one core, GB/s of elements reduced", title_justify="left")
    for heading in ("dtype", "operation", "in cache", "numpy", "ratio", "from memory", "of copying"):
        table.add_column(heading, justify="left" if heading in ("dtype", "operation") else "right")
    for row in _rows(mebibytes << 20, turns):
        table.add_row(*row)
    Console(width=100).print(table)


def _rows(size_bytes: int, turns: int) -> Iterator[tuple[str, ...]]:
    copy = _copy_bytes_per_s(size_bytes, turns)
    for dtype in DTYPES:
        for operation, ufunc in NUMPY.items():
            small, large = (_pair(dtype, size) for size in (CACHED_BYTES, size_bytes))
            repeats = max(1, size_bytes // CACHED_BYTES // 4)
            ours = _bytes_per_s(lambda: combine(operation, *small), CACHED_BYTES, repeats, turns)  # noqa: B023
            theirs = _bytes_per_s(lambda: ufunc(*small, out=small[0]), CACHED_BYTES, repeats, turns)  # noqa: B023
            memory = _bytes_per_s(lambda: combine(operation, *large), size_bytes, 1, turns)  # noqa: B023
            figures = (f"{ours / 1e9:.1f}", f"{theirs / 1e9:.2f}", f"{ours / theirs:.1f}x")
            yield dtype.name, operation, *figures, f"{memory / 1e9:.1f}", f"{memory / copy:.2f}x"


def _pair(dtype: np.dtype[Any], size_bytes: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    count = size_bytes // dtype.itemsize
    return np.ones(count, dtype), np.zeros(count, dtype)


def _copy_bytes_per_s(size_bytes: int, turns: int) -> float:
    """The memory bandwidth limit: a copy reads and writes a byte for each byte copied."""
    source, target = np.ones(size_bytes, np.uint8), np.zeros(size_bytes, np.uint8)
    return _bytes_per_s(lambda: np.copyto(target, source), size_bytes, 1, turns)


def _bytes_per_s(work: Callable[[], object], size_bytes: int, repeats: int, turns: int) -> float:
    work()
    rates = []
    for _ in range(turns):
        begin = time.perf_counter()
        for _ in range(repeats):
            work()
        rates.append(size_bytes * repeats / (time.perf_counter() - begin))
    return statistics.median(rates)
