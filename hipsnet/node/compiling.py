# SPDX-License-Identifier: Apache-2.0
"""Compile C to relocatable bytecode with bcc. `python -m hipsnet.node.compiling NAME ...` writes it as JSON.

It runs in a process of its own: the compiler is large, and reports errors on standard error only.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import kernel
from hipsnet.errors import CapabilityError
from hipsnet.node import bpf
from hipsnet.node.headers import find_headers

_LOAD_IMMEDIATE = 0x18  # BPF_LD | BPF_IMM | BPF_DW
_MAP_BY_FD = 1  # BPF_PSEUDO_MAP_FD in src_reg


def compile_programs(names: tuple[str, ...]) -> dict[str, Any]:
    """Compile `kernel/<name>.c` for every name, in another process; returns plain JSON data by name.

    Raises CapabilityError without bcc or headers, or with the compiler's messages.
    """
    command = [sys.executable, "-m", "hipsnet.node.compiling", *names]
    # The child imports from the same places as this process.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise CapabilityError(
            f"cannot compile {', '.join(names)}:\n{done.stderr.strip()}\nsee: hipsnet doctor"
        )
    compiled: dict[str, Any] = json.loads(done.stdout)
    return compiled


def _main(names: list[str]) -> None:
    headers = find_headers()
    if headers is None:
        sys.exit("no kernel headers in /lib/modules or /usr/src; run: apt install linux-headers-amd64")
    try:
        import bcc
    except ImportError:
        sys.exit(f"{sys.executable} has no bcc; run: apt install python3-bpfcc, then tools/setup")
    os.environ["BCC_KERNEL_SOURCE"] = str(headers.source)
    json.dump({name: _compile(bcc, name, headers.cflags) for name in names}, sys.stdout)


def _compile(bcc: Any, name: str, cflags: tuple[str, ...]) -> dict[str, Any]:
    text = "\n".join(_lines(f"{name}.c", set()))
    module = bcc.BPF(text=text, cflags=[*cflags, "-Werror"])
    code = module.dump_func(name.encode())
    maps = {}
    by_fd = {}
    for table in _tables(bcc, module):
        fd = bcc.lib.bpf_table_fd(module.module, table)
        by_fd[fd] = table.decode()
        maps[table.decode()] = _describe(bcc, module, table, fd)
    relocations = _relocations(code, by_fd)
    used = {map_name for _, map_name in relocations}
    return {
        "instructions": base64.b64encode(code).decode(),
        "relocations": relocations,
        # The template of the maps in a map of maps is not a map of the program.
        "maps": {map_name: found for map_name, found in maps.items() if map_name in used},
    }


def _lines(name: str, seen: set[str]) -> Iterator[str]:
    """Return a source with its local headers inlined: bcc recognizes maps only in its input file."""
    seen.add(name)
    yield f'#line 1 "{name}"'
    for number, line in enumerate((kernel.FOLDER / name).read_text().splitlines(), 1):
        found = re.fullmatch(r'#include "(\w+\.h)"', line)
        if found is None:
            yield "" if line == "#pragma once" else line
        elif found[1] not in seen:
            yield from _lines(found[1], seen)
            yield f'#line {number + 1} "{name}"'
        else:
            yield ""


def _tables(bcc: Any, module: Any) -> list[bytes]:
    count, name = bcc.lib.bpf_num_tables, bcc.lib.bpf_table_name
    count.argtypes, count.restype = [ctypes.c_void_p], ctypes.c_size_t
    name.argtypes, name.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_char_p
    return [name(module.module, number) for number in range(count(module.module))]


def _describe(bcc: Any, module: Any, table: bytes, fd: int) -> dict[str, Any]:
    # The kernel itself adds that flag to a devmap, and refuses it when one is created.
    info = bpf.map_info(fd)
    return {
        "type": info.type,
        "key_size": info.key_size,
        "value_size": info.value_size,
        "max_entries": info.max_entries,
        "flags": info.flags & ~bpf.READ_ONLY_FOR_PROGRAMS,
        "key": json.loads(bcc.lib.bpf_table_key_desc(module.module, table)),
        "value": json.loads(bcc.lib.bpf_table_leaf_desc(module.module, table)),
    }


def _relocations(code: bytes, by_fd: dict[int, str]) -> list[tuple[int, str]]:
    """(instruction number, map name) of every instruction that holds the descriptor of a map."""
    found = []
    for number, (opcode, registers, _, immediate) in enumerate(struct.iter_unpack("<BBhi", code)):
        if opcode == _LOAD_IMMEDIATE and registers >> 4 == _MAP_BY_FD:
            found.append((number, by_fd[immediate]))
    return found


if __name__ == "__main__":
    _main(sys.argv[1:])
