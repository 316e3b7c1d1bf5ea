# SPDX-License-Identifier: Apache-2.0
"""Reductions in C against numpy's, element by element."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipsnet.engine import library
from hipsnet.engine.reduction import DTYPES, OPERATIONS, divide, reduce
from hipsnet.stack import building

NUMPY = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 1009)


def values(dtype: np.dtype[Any], count: int, seed: int) -> np.ndarray:
    """Every kind of number: any bit pattern, with subnormals, infinities, NaN and both zeros more often."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        special = np.array([0, 1, -1, limits.min, limits.max], dtype)
    else:
        tiny = np.array([1, 3], f"u{dtype.itemsize}").view(dtype)  # the smallest subnormals
        special = np.concatenate([np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.5], dtype), tiny])
    chosen = rng.random(count) < 0.3
    found[chosen] = rng.choice(special, int(chosen.sum()))
    return found


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal bit by bit, but that a NaN may be any NaN, and of two zeros max and min may give either."""
    if found.dtype.kind == "i":
        assert found.tobytes() == expected.tobytes()
        return
    bits = f"u{found.dtype.itemsize}"
    same = found.view(bits) == expected.view(bits)
    with np.errstate(invalid="ignore"):
        same |= np.isnan(found) & np.isnan(expected)
        same |= (found == 0) & (expected == 0)
    assert same.all(), (found[~same][:5], expected[~same][:5])


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reduce_equals_numpy(dtype: np.dtype[Any], operation: str) -> None:
    for length in LENGTHS:
        for offset in (0, 1, 3):
            ours, theirs = (
                values(dtype, length + offset, seed)[offset:] for seed in (length, ~length & 0xFFFF)
            )
            with np.errstate(all="ignore"):
                expected = NUMPY[operation](ours, theirs)
            reduce(operation, ours, theirs)
            assert_same(ours, expected)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_half_with_every_kind_of_half(name: str, operation: str) -> None:
    dtype = next(dtype for dtype in DTYPES if dtype.name == name)
    every = np.arange(1 << 16, dtype=np.uint16)
    for other in (
        0x0000,
        0x8000,
        0x0001,
        0x3C00,
        0x3C01,
        0x7BFF,
        0x7C00,
        0x7E00,
        0x3F80,
        0x7F7F,
        0x7F80,
        0xFFC1,
    ):
        ours, theirs = every.copy().view(dtype), np.full(1 << 16, other, np.uint16).view(dtype)
        with np.errstate(all="ignore"):
            expected = NUMPY[operation](ours, theirs)
        reduce(operation, ours, theirs)
        assert_same(ours, expected)


def test_float16_by_software_and_by_the_processor_are_the_same(tmp_path: Path) -> None:
    """Every binary16 value to float and back, and every float halfway between two of them."""
    program = tmp_path / "halves"
    source = Path(__file__).parent / "halves.c"
    include = [f"-I{folder}" for folder in (building.FOLDER, library.FOLDER.parent)]
    subprocess.run(
        ["cc", "-std=gnu11", "-O2", "-mavx", "-mf16c", *include, source, "-o", program], check=True
    )
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "same\n"


@pytest.mark.parametrize("divisor", [1, 3, 9, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_divide_equals_numpy(dtype: np.dtype[Any], divisor: int) -> None:
    for length in LENGTHS:
        found = values(dtype, length, length)
        with np.errstate(all="ignore"):
            if dtype.kind == "i":
                wide = [abs(int(value)) // divisor * (1 if value >= 0 else -1) for value in found]
                expected = np.array(wide, dtype)
            else:
                expected = np.divide(found, dtype.type(divisor))
        divide(found, divisor)
        assert_same(found, expected)


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    """The same loops under ASan and UBSan, in a program: odd lengths at the end of an allocation."""
    program = tmp_path / "reduce"
    include = [f"-I{folder}" for folder in (building.FOLDER, library.FOLDER.parent)]
    sources = [Path(__file__).parent / "reduce_all.c", library.FOLDER / "reduce/reduce.c"]
    flags = ["-std=gnu11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["cc", *flags, *include, *sources, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
