# SPDX-License-Identifier: Apache-2.0
"""The stack's C core for Python: compiled on first use, with the declarations of its own headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cffi import FFI

from hipsnet.stack.building import FOLDER, library

SOURCES = (
    "roce/icrc.c",
    "roce/packet.c",
    "roce/build.c",
    "roce/requester.c",
    "roce/responder.c",
    "roce/rc.c",
    "roce/rc_views.c",
    "roce/endpoint.c",
)
HEADERS = ("wire/types.h", "roce/rc.h", "roce/endpoint.h")


class Core(NamedTuple):
    """An open library: `ffi` creates C values, `lib` has the functions and constants."""

    ffi: Any
    lib: Any


def load(
    folder: Path,
    name: str = "core",
    sources: Sequence[str] = (),
    headers: Sequence[str] = (),
    link: Sequence[str] = (),
) -> Core:
    """The core with further `sources` of this package and their `headers`' declarations, compiled in `folder`.

    Raises CapabilityError if it cannot be compiled.
    """
    ffi = FFI()
    ffi.cdef("\n".join(declarations(header) for header in (*HEADERS, *headers)))
    return Core(ffi, ffi.dlopen(str(library(name, (*SOURCES, *sources), folder, link))))


def declarations(header: str) -> str:
    """A header as cffi can read it: without preprocessor lines, except macros that are numbers."""
    text = re.sub(r"/\*.*?\*/", "", (FOLDER / header).read_text(), flags=re.DOTALL)
    number = re.compile(r"#define (\w+)\s+(0x[0-9a-fA-F]+|\d+)(?:U|UL|ULL)?\s*$")
    lines = []
    for line in text.splitlines():
        found = number.match(line)
        if found:
            lines.append(f"#define {found[1]} {found[2]}")
        elif not line.startswith("#"):
            lines.append(line)
    return "\n".join(lines)
