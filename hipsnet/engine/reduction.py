# SPDX-License-Identifier: Apache-2.0
"""Reductions of numpy arrays by the C library."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from hipsnet.engine.library import library

DTYPES: tuple[np.dtype[Any], ...] = tuple(
    np.dtype(dtype) for dtype in (np.float16, bfloat16, np.float32, np.float64, np.int32, np.int64)
)
"""In the order of `enum reduce_dtype`."""

OPERATIONS = ("sum", "prod", "max", "min")
"""In the order of `enum reduce_operation`."""


def reduce(operation: str, target: NDArray[Any], other: NDArray[Any]) -> None:
    """Combine `other` into `target`, element by element, in place.

    Both are C-contiguous, of the same shape and dtype (one of DTYPES), and do not overlap. `operation` is one
    of OPERATIONS.
    """
    ffi, lib = library()
    lib.reduce(
        DTYPES.index(target.dtype),
        OPERATIONS.index(operation),
        ffi.cast("void *", target.ctypes.data),
        ffi.cast("const void *", other.ctypes.data),
        target.size,
    )


def divide(target: NDArray[Any], divisor: int) -> None:
    """Divide `target` (C-contiguous, one of DTYPES) by a positive number in place; integers toward zero."""
    ffi, lib = library()
    pointer = ffi.cast("void *", target.ctypes.data)
    lib.reduce_divide(DTYPES.index(target.dtype), pointer, divisor, target.size)
