# SPDX-License-Identifier: Apache-2.0
"""Calls of libbpf: results, errors and file descriptors."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from hipsnet.errors import CapabilityError, ProvisionError

NAME_BYTES = 16  # linux/bpf.h: BPF_OBJ_NAME_LEN, with the final zero


@cache
def libbpf() -> ctypes.CDLL:
    """The library. Raises CapabilityError if it is not installed."""
    try:
        return ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise CapabilityError("libbpf.so.1 is not installed; run: apt install libbpf1") from None


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close the descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def answer(result: int, wish: str) -> int:
    """Return a result of libbpf, which is -errno for a failure.

    Raises CapabilityError for a missing privilege, otherwise ProvisionError, with `wish` in the message.
    """
    if result >= 0:
        return result
    if -result in (errno.EPERM, errno.EACCES):
        raise CapabilityError(f"cannot {wish}: requires CAP_BPF and CAP_NET_ADMIN; run as root")
    error = ProvisionError(f"cannot {wish}: {os.strerror(-result)}")
    error.__cause__ = OSError(-result, os.strerror(-result))
    raise error


def describe(fd: int, info: ctypes.Structure, what: str) -> None:
    """Fill `info` with the kernel's description of the map or program behind a descriptor."""
    size = ctypes.c_uint32(ctypes.sizeof(info))
    answer(libbpf().bpf_obj_get_info_by_fd(fd, ctypes.byref(info), ctypes.byref(size)), f"describe a {what}")
