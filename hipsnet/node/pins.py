# SPDX-License-Identifier: Apache-2.0
"""The folder of bpffs where a node's maps and program are pinned: hipsnet/<fabric>/<node>/<map>."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import kernel
from hipsnet.errors import CapabilityError
from hipsnet.node.system_calls import libc

BPFFS = Path("/sys/fs/bpf")
ROOT = kernel.PINS
PROGRAM = "program"
_MAGIC = 0xCAFE4A11  # linux/magic.h, BPF_FS_MAGIC


def node_folder(fabric: str, node: str) -> Path:
    """Where the pins of a node are, or would be."""
    return ROOT / fabric / node


def pinned_fabrics() -> tuple[str, ...]:
    """The fabrics that have pins, sorted."""
    return _folders(ROOT)


def pinned_nodes(fabric: str) -> tuple[str, ...]:
    """The nodes of a fabric that have pins, sorted."""
    return _folders(ROOT / fabric)


def remove_pins(fabric: str, node: str | None = None) -> None:
    """Remove the pins of a node's maps and program (of all nodes: None); no error if there are none.

    Attached programs keep running.
    """
    for name in pinned_nodes(fabric) if node is None else (node,):
        folder = node_folder(fabric, name)
        if folder.is_dir():
            for pin in folder.iterdir():
                pin.unlink(missing_ok=True)
            folder.rmdir()
    for folder in (ROOT / fabric, ROOT):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def mount_bpffs() -> bool:
    """Mount bpffs on /sys/fs/bpf; returns whether it was not mounted. Raises CapabilityError if it cannot be."""
    if is_mounted():
        return False
    if libc.mount(b"bpf", os.fsencode(BPFFS), b"bpf", ctypes.c_ulong(0), b"mode=0700") != 0:
        why = os.strerror(ctypes.get_errno())
        raise CapabilityError(f"cannot mount bpffs on {BPFFS}: {why}; run as root: mount -t bpf bpf {BPFFS}")
    return True


def is_mounted() -> bool:
    """Whether /sys/fs/bpf is bpffs."""
    status = (ctypes.c_long * 64)()
    return libc.statfs(os.fsencode(BPFFS), ctypes.byref(status)) == 0 and status[0] == _MAGIC


def _folders(parent: Path) -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in parent.iterdir())) if parent.is_dir() else ()
