# SPDX-License-Identifier: Apache-2.0
"""Views of a caller's memory as a numpy array, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.errors import InputError


def as_array(memory: Any) -> NDArray[Any]:
    """Return `memory` itself if it is an array, else a view of it through DLPack (CPU only) or the buffer protocol.

    Raises InputError for other types: the result of a reduction would be lost in a copy.
    """
    if isinstance(memory, np.ndarray):
        return memory
    try:
        return np.from_dlpack(memory) if hasattr(memory, "__dlpack__") else np.asarray(memoryview(memory))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise InputError(
            "all_reduce takes a numpy array, or memory on the CPU that is exported by DLPack or the buffer "
            f"protocol, not {type(memory).__name__} ({error})"
        ) from error
