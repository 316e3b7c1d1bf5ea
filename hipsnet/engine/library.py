# SPDX-License-Identifier: Apache-2.0
"""The engine's C library for Python: compiled on first use, its declarations read from its own headers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cffi import FFI

import kernel
from hipsnet.stack import building
from hipsnet.stack.roce.core import Core, declarations

FOLDER = Path(__file__).parent
SOURCES = ("reduce/reduce.c",)
HEADERS = ("reduce/reduce.h",)
LINK = ("pthread",)


@cache
def library() -> Core:
    """The library. Raises CapabilityError if it cannot be compiled."""
    ffi = FFI()
    headers = [Path("wire/types.h"), *(FOLDER / header for header in HEADERS)]
    ffi.cdef("\n".join(declarations(str(header)) for header in headers))
    sources = [str(FOLDER / source) for source in SOURCES]
    return Core(ffi, ffi.dlopen(str(building.library("engine", sources, kernel.cache_folder(), LINK))))
