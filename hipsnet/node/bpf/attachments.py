# SPDX-License-Identifier: Apache-2.0
"""XDP programs on interfaces of the caller's namespace: query, attach, detach."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from hipsnet.node.bpf.call import answer, libbpf

_UPDATE_IF_NOEXIST, _DRIVER_MODE, _REPLACE = 1 << 0, 1 << 2, 1 << 4  # linux/if_link.h


class _AttachOptions(ctypes.Structure):
    _fields_ = (("sz", ctypes.c_size_t), ("old_prog_fd", ctypes.c_int))


class _QueryOptions(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("prog_id", ctypes.c_uint32),
        ("drv_prog_id", ctypes.c_uint32),
        ("hw_prog_id", ctypes.c_uint32),
        ("skb_prog_id", ctypes.c_uint32),
        ("attach_mode", ctypes.c_uint8),
    )


@dataclass(frozen=True)
class Attachment:
    """The XDP program of an interface; `native` is whether it runs in the driver, not in the generic hook."""

    program_id: int
    native: bool


def attached(ifindex: int) -> Attachment | None:
    """Return the XDP program of an interface of this namespace; None if it has none."""
    options = _QueryOptions(sz=ctypes.sizeof(_QueryOptions))
    answer(
        libbpf().bpf_xdp_query(ifindex, 0, ctypes.byref(options)), f"ask interface {ifindex} for its program"
    )
    program_id = options.drv_prog_id or options.prog_id
    return Attachment(program_id, native=bool(options.drv_prog_id)) if program_id else None


def attach(ifindex: int, fd: int, replaced: int | None = None) -> None:
    """Attach a program natively, in place of the program behind `replaced`, or of none.

    The kernel refuses it (ProvisionError) if the interface has another program by then.
    """
    options = _AttachOptions(
        sz=ctypes.sizeof(_AttachOptions), old_prog_fd=replaced if replaced is not None else -1
    )
    flags = _DRIVER_MODE | (_UPDATE_IF_NOEXIST if replaced is None else _REPLACE)
    given = None if replaced is None else ctypes.byref(options)
    answer(
        libbpf().bpf_xdp_attach(ifindex, fd, flags, given),
        f"attach an XDP program to interface {ifindex} natively",
    )


def unattach(ifindex: int, fd: int) -> None:
    """Detach the program behind `fd` from an interface. Raises ProvisionError if another one is attached."""
    options = _AttachOptions(sz=ctypes.sizeof(_AttachOptions), old_prog_fd=fd)
    result = libbpf().bpf_xdp_detach(ifindex, _DRIVER_MODE | _REPLACE, ctypes.byref(options))
    answer(result, f"take the XDP program from interface {ifindex}")
