# SPDX-License-Identifier: Apache-2.0
"""The kernel programs of this version: compiled once per machine, cached, and loaded many times."""

from __future__ import annotations

import base64
import hashlib
import json
import mmap
import platform
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import kernel
from hipsnet.node import bpf
from hipsnet.node.compiling import compile_programs
from hipsnet.node.layout import dtype_of
from hipsnet.ownership import CACHE_ADVICE, is_private_file, make_private, require_private
from kernel import cache_folder

PROGRAMS = ("forward", "cable", "switched")
OURS = "hips_"
_FORMAT = 2
_INSTRUCTION_BYTES = 8
_TAG_BYTES = 8


@dataclass(frozen=True)
class MapLayout:
    """A map as the source declares it; `key` and `value` are the dtypes of one entry."""

    type: int
    max_entries: int
    flags: int
    key: np.dtype[Any]
    value: np.dtype[Any]


@dataclass(frozen=True)
class Program:
    """Bytecode without its maps: `relocations` are the (instruction number, map name) to fill in.

    `kernel_name` is the name that the kernel shows; `tags` are the digests that kernels compute of the
    instructions without the maps: SHA-1, from Linux 6.18 on SHA-256 (bpf_prog_calc_tag in kernel/bpf/core.c).
    """

    name: str
    instructions: bytes
    relocations: tuple[tuple[int, str], ...]
    maps: Mapping[str, MapLayout]

    @property
    def kernel_name(self) -> str:
        return OURS + self.name

    @cached_property
    def tags(self) -> frozenset[str]:
        code = bytearray(self.instructions)
        for number, _ in self.relocations:
            for half in (number, number + 1):
                struct.pack_into("<i", code, half * _INSTRUCTION_BYTES + 4, 0)
        digests = (hashlib.sha1(code, usedforsecurity=False), hashlib.sha256(code))
        return frozenset(digest.digest()[:_TAG_BYTES].hex() for digest in digests)


def ensure_programs(names: tuple[str, ...] = PROGRAMS) -> bool:
    """Compile the programs that are not in the cache (some seconds); return whether there were any.

    Raises CapabilityError if it cannot be compiled here, or if others could write in the cache.
    """
    missing = tuple(name for name in names if _read(_path(name)) is None)
    if missing:
        for name, compiled in compile_programs(missing).items():
            _write(_path(name), compiled)
        _read.cache_clear()
    return bool(missing)


def program_of(name: str) -> Program:
    """The program `kernel/<name>.c`, compiled unless it is in the cache."""
    ensure_programs((name,))
    program = _read(_path(name))
    assert program is not None
    return program


def create_map(program: Program, name: str, max_entries: int | None = None) -> int:
    """Create one of the program's maps and return its descriptor; the size is the source's unless given."""
    layout = program.maps[name]
    size = layout.max_entries if max_entries is None else max_entries
    sizes = (layout.key.itemsize, layout.value.itemsize, size, layout.flags)
    if layout.type != bpf.MAP_OF_MAPS:
        return bpf.create_map(name, layout.type, *sizes)
    # The only maps of maps are those of rings; the size of each ring is free.
    with bpf.closing(create_ring(mmap.PAGESIZE)) as ring:
        return bpf.create_map(name, layout.type, *sizes, inner=ring)


def create_ring(size_bytes: int) -> int:
    """Create a ring for frames and return its descriptor; the size is a power of two, at least a page."""
    return bpf.create_map("ring", bpf.RING, 0, 0, size_bytes)


def load(program: Program, maps: Mapping[str, int]) -> int:
    """Load the program with the maps behind these descriptors, and return its descriptor."""
    code = bytearray(program.instructions)
    for number, name in program.relocations:
        struct.pack_into("<i", code, number * _INSTRUCTION_BYTES + 4, maps[name])
    return bpf.load_xdp(program.kernel_name, bytes(code))


@cache
def _key() -> str:
    """A digest of everything that the bytecode depends on."""
    try:
        compiler = metadata.version("bcc")
    except metadata.PackageNotFoundError:
        compiler = "none"
    parts = [_FORMAT, compiler, platform.release(), platform.machine(), kernel.sources()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _path(name: str) -> Path:
    return cache_folder() / f"{name}-{_key()}.json"


@cache
def _read(path: Path) -> Program | None:
    """The program cached at `path`; None if there is none, or if another user could have written it.

    Raises CapabilityError if others could write in the folder.
    """
    try:
        require_private(path.parent, CACHE_ADVICE)
        if not is_private_file(path):
            return None
        return _parse(path.name.rpartition("-")[0], json.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parse(name: str, kept: dict[str, Any]) -> Program:
    maps = {
        map_name: MapLayout(
            type=found["type"],
            max_entries=found["max_entries"],
            flags=found["flags"],
            key=dtype_of(found["key"], found["key_size"]),
            value=dtype_of(found["value"], found["value_size"]),
        )
        for map_name, found in kept["maps"].items()
    }
    relocations = tuple((int(number), str(map_name)) for number, map_name in kept["relocations"])
    return Program(name, base64.b64decode(kept["instructions"]), relocations, maps)


def _write(path: Path, compiled: dict[str, Any]) -> None:
    """Write the file atomically, also if two processes do it at once."""
    make_private(path.parent, 0o700, CACHE_ADVICE)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", suffix=".part", delete=False) as part:
        json.dump(compiled, part)
    Path(part.name).replace(path)
