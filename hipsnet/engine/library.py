# SPDX-License-Identifier: Apache-2.0
"""The engine's C library for Python: compiled on first use, its declarations read from its own headers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cffi import FFI

import kernel
from hipsnet.stack import building
from hipsnet.stack.roce.core import Core, declarations

FOLDER = Path(__file__).parent
SOURCES = (
    "reduce/reduce.c",
    "core/message.c",
    "core/calls.c",
    "core/sending.c",
    "core/receiving.c",
    "core/early.c",
    "core/liveness.c",
    "wire/tcp.c",
    "wire/tcp_send.c",
    "wire/tcp_receive.c",
    "driver/engine.c",
)
HEADERS = (
    "reduce/reduce.h",
    "core/plan.h",
    "core/message.h",
    "core/core.h",
    "wire/tcp.h",
    "driver/engine.h",
)
LINK = ("pthread",)


@cache
def library() -> Core:
    """The library. Raises CapabilityError if it cannot be compiled."""
    return load(kernel.cache_folder())


def load(
    folder: Path,
    name: str = "engine",
    sources: Sequence[Path] = (),
    headers: Sequence[Path] = (),
    link: Sequence[str] = (),
) -> Core:
    """Compile the library with further `sources`, declared in `headers`, in `folder`, and load it.

    `link` are the libraries that these sources need.
    """
    ffi = FFI()
    every = [Path("wire/types.h"), *(FOLDER / header for header in HEADERS), *headers]
    ffi.cdef("\n".join(declarations(str(header)) for header in every))
    files = [*(str(FOLDER / source) for source in SOURCES), *map(str, sources)]
    path = str(building.library(name, files, folder, (*LINK, *link)))
    ctypes.CDLL(path)  # never unloaded: threads may still be in the library when the interpreter ends
    return Core(ffi, ffi.dlopen(path))
