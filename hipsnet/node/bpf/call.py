# SPDX-License-Identifier: Apache-2.0
"""Calling libbpf: what it answers, and the descriptors that it gives."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from hipsnet.errors import CapabilityError, ProvisionError

NAME_BYTES = 16  # linux/bpf.h: of a name in the kernel, with the zero at its end


@cache
def libbpf() -> ctypes.CDLL:
    """The library. Raises CapabilityError if it is not installed."""
    try:
        return ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise CapabilityError("libbpf.so.1 wanted, not found; run: apt install libbpf1") from None


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close the descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def answer(result: int, wish: str) -> int:
    """Hand on what libbpf answered (-errno for a failure).

    Raises CapabilityError for want of privilege, else ProvisionError, with `wish` in the message.
    """
    if result >= 0:
        return result
    if -result in (errno.EPERM, errno.EACCES):
        raise CapabilityError(f"cannot {wish}: CAP_BPF and CAP_NET_ADMIN wanted, not found; run as root")
    error = ProvisionError(f"cannot {wish}: {os.strerror(-result)}")
    error.__cause__ = OSError(-result, os.strerror(-result))
    raise error


def describe(fd: int, info: ctypes.Structure, what: str) -> None:
    """Fill `info` with what the kernel says about the map or program behind a descriptor."""
    size = ctypes.c_uint32(ctypes.sizeof(info))
    answer(libbpf().bpf_obj_get_info_by_fd(fd, ctypes.byref(info), ctypes.byref(size)), f"describe a {what}")
