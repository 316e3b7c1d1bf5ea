# SPDX-License-Identifier: Apache-2.0
"""The numbers that jobs synchronize and check: their sum over all ranks is known without a collective.

The numbers of a rank repeat after `PERIOD` elements, so that even the gradients of a large network are written and
checked from one block that fits the cache. The period is prime: no piece of a schedule is a multiple of it, so a
piece in the wrong place gives a wrong sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PERIOD = 1_048_573
Vector = NDArray[Any]


@dataclass(frozen=True)
class Expected:
    """One period of the sum over all ranks: exact for integers, float64 within `tolerance` for the others."""

    total: Vector
    tolerance: Vector | None


def contribution(rank: int, count: int, dtype: np.dtype[Any]) -> Vector:
    """The first period of a rank's numbers, at most `count` of them.

    Floating-point numbers are spread evenly over [-1, 1), integers over all values of their type.
    """
    mixed = np.arange(min(count, PERIOD), dtype=np.uint32)
    mixed += np.uint32(rank * 0x9E3779B9 & 0xFFFFFFFF)
    # lowbias32 of Chris Wellons' hash prospector: every bit of the input changes half of the output's.
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        mixed ^= mixed >> np.uint32(shift)
        mixed *= np.uint32(factor)
    if dtype.kind == "i":
        wide = mixed.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return wide.view(np.int64).astype(dtype)  # an int32 takes the low half
    return ((mixed >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)).astype(dtype)


def expected(world_size: int, count: int, dtype: np.dtype[Any]) -> Expected:
    """The sum of all ranks' contributions, and the largest error of a sum in `dtype`, in any order."""
    exact = dtype.kind == "i"
    total = np.zeros(min(count, PERIOD), dtype if exact else np.float64)
    magnitude = np.zeros_like(total)
    for rank in range(world_size):
        part = contribution(rank, count, dtype).astype(total.dtype)
        total += part
        magnitude += abs(part)
    if exact:
        return Expected(total, None)
    # Higham, Accuracy and Stability of Numerical Algorithms, 4.2: N-1 roundings, each of at most one unit of
    # the sum of the magnitudes, and one more into the result's type.
    return Expected(total, world_size * _unit(dtype) * magnitude)


def shifted(sums: Expected, start: int) -> Expected:
    """The sums of the elements from `start` on."""
    place = start % PERIOD
    if not place:
        return sums
    total, tolerance = (
        None if part is None else np.roll(part, -place) for part in (sums.total, sums.tolerance)
    )
    assert total is not None
    return Expected(total, tolerance)


def fill(array: Vector, block: Vector) -> None:
    """Fill the array with repetitions of the block."""
    for start in range(0, array.size, PERIOD):
        part = array[start : start + PERIOD]
        part[:] = block[: part.size]


def wrong(array: Vector, sums: Expected) -> int:
    """The number of elements that differ from the expected sum; NaN always differs."""
    count = 0
    for start in range(0, array.size, PERIOD):
        part = array[start : start + PERIOD].astype(sums.total.dtype)
        total = sums.total[: part.size]
        allowed = 0 if sums.tolerance is None else sums.tolerance[: part.size]
        right = part == total if sums.tolerance is None else np.abs(part - total) <= allowed
        count += part.size - int(np.count_nonzero(right))
    return count


def _unit(dtype: np.dtype[Any]) -> float:
    """Half the distance from 1 to the next number of the type."""
    if dtype.name == "bfloat16":  # numpy's finfo does not know it
        return 2.0**-8
    return float(np.finfo(dtype).eps) / 2
