# SPDX-License-Identifier: Apache-2.0
"""The simulator's C library for Python: compiled on first use, its declarations read from its own headers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from cffi import FFI
from numpy.typing import NDArray

import kernel
from hipsnet.stack import building
from hipsnet.stack.roce.core import Core, declarations

FOLDER = Path(__file__).parent
SOURCES = ("program.c", "share.c", "fluid.c")
HEADERS = ("program.h", "fluid.h")


@cache
def library() -> Core:
    """The library. Raises CapabilityError if it cannot be compiled."""
    return load(kernel.cache_folder())


def load(folder: Path) -> Core:
    """Compile the library in `folder`, and load it."""
    ffi = FFI()
    ffi.cdef(
        "\n".join(declarations(str(file)) for file in ("wire/types.h", *(FOLDER / name for name in HEADERS)))
    )
    sources = [str(FOLDER / source) for source in SOURCES]
    return Core(ffi, ffi.dlopen(str(building.library("fluid", sources, folder, ("m",)))))


def pointer(ffi: Any, array: NDArray[Any]) -> Any:
    """The address of a C-contiguous array, as its elements' C type; the array must stay alive."""
    assert array.flags.c_contiguous
    name = {"float64": "double *", "uint32": "u32 *", "uint64": "u64 *"}[array.dtype.name]
    return ffi.cast(name, array.ctypes.data)
