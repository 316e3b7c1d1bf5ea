# SPDX-License-Identifier: Apache-2.0
"""XDP programs: load, open by id, describe."""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import dataclass

from hipsnet.errors import ProvisionError
from hipsnet.node.bpf.call import NAME_BYTES, answer, closing, describe, libbpf

# linux/bpf.h
_PROG_TYPE_XDP = 6
_ATTACH_XDP = 37
_HAS_FRAGS = 1 << 5
_LOG_BYTES = 1 << 20


class _ProgramInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("tag", ctypes.c_uint8 * 8),
        ("lengths", ctypes.c_uint32 * 2),
        ("instructions", ctypes.c_uint64 * 2),
        ("load_time", ctypes.c_uint64),
        ("created_by_uid", ctypes.c_uint32),
        ("map_count", ctypes.c_uint32),
        ("map_ids", ctypes.c_uint64),
        ("name", ctypes.c_char * NAME_BYTES),
    )


class _LoadOptions(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("attempts", ctypes.c_int),
        ("expected_attach_type", ctypes.c_uint32),
        ("prog_btf_fd", ctypes.c_uint32),
        ("prog_flags", ctypes.c_uint32),
        ("prog_ifindex", ctypes.c_uint32),
        ("kern_version", ctypes.c_uint32),
        ("attach", ctypes.c_uint32 * 3),
        ("fd_array", ctypes.c_void_p),
        ("func_info", ctypes.c_void_p),
        ("func_info_size", ctypes.c_uint32 * 2),
        ("line_info", ctypes.c_void_p),
        ("line_info_size", ctypes.c_uint32 * 2),
        ("log_level", ctypes.c_uint32),
        ("log_size", ctypes.c_uint32),
        ("log_buf", ctypes.c_char_p),
    )


@dataclass(frozen=True)
class ProgramInfo:
    """The kernel's description of a program; `tag` is a digest of its instructions."""

    id: int
    name: str
    tag: str
    map_ids: tuple[int, ...]


def load_xdp(name: str, instructions: bytes) -> int:
    """Load an XDP program that takes frames in several buffers, and return its descriptor.

    Raises ProvisionError with the end of the verifier's log if the kernel refuses it.
    """

    def attempt(log: ctypes.Array[ctypes.c_char] | None) -> int:
        options = _LoadOptions(
            sz=ctypes.sizeof(_LoadOptions), expected_attach_type=_ATTACH_XDP, prog_flags=_HAS_FRAGS
        )
        if log is not None:
            options.log_level, options.log_size = 1, len(log)
            options.log_buf = ctypes.cast(log, ctypes.c_char_p)
        return int(
            libbpf().bpf_prog_load(
                _PROG_TYPE_XDP,
                name.encode()[: NAME_BYTES - 1],
                b"GPL",
                instructions,
                ctypes.c_size_t(len(instructions) // 8),
                ctypes.byref(options),
            )
        )

    fd = attempt(None)
    if fd >= 0 or -fd == errno.EPERM:
        return answer(fd, f"load the program {name}")
    log = ctypes.create_string_buffer(_LOG_BYTES)
    fd = attempt(log)
    if fd >= 0:
        return fd
    said = "\n  ".join(log.value.decode(errors="replace").strip().splitlines()[-12:])
    raise ProvisionError(
        f"the kernel refuses the program {name}: {os.strerror(-fd)}; the verifier says\n  {said}"
    )


def program_info(fd: int) -> ProgramInfo:
    """Describe the program behind a descriptor."""
    ids = (ctypes.c_uint32 * 64)()
    info = _ProgramInfo(map_count=len(ids), map_ids=ctypes.addressof(ids))
    describe(fd, info, "program")
    return ProgramInfo(info.id, info.name.decode(), bytes(info.tag).hex(), tuple(ids[: info.map_count]))


def open_program(program_id: int) -> int:
    """Open the program of an id."""
    return answer(libbpf().bpf_prog_get_fd_by_id(program_id), f"open the program {program_id}")


def program_by_id(program_id: int) -> ProgramInfo | None:
    """Describe the program of an id; None if it is gone."""
    fd = libbpf().bpf_prog_get_fd_by_id(program_id)
    if fd == -errno.ENOENT:
        return None
    with closing(answer(fd, f"open the program {program_id}")):
        return program_info(fd)
