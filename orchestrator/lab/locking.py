# SPDX-License-Identifier: Apache-2.0
"""The lock of a fabric: only one command at a time changes it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hipsnet.errors import CapabilityError, ProvisionError
from orchestrator.lab import state

WAIT_S = 30.0
_PAUSE_S = 0.05


@contextmanager
def locked(fabric: str, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of a fabric; the kernel frees it however the process ends.

    Raises ProvisionError if another command holds it for longer than `wait_s`.
    """
    deadline = time.monotonic() + wait_s
    handle = _take(fabric, deadline, wait_s)
    try:
        yield
    finally:
        if state.folder(fabric).is_dir() and not _is_used(fabric):
            state.remove(fabric)
        os.close(handle)


def _take(fabric: str, deadline: float, wait_s: float) -> int:
    while True:
        handle = _open(fabric, deadline)
        while not _try(handle):
            if time.monotonic() > deadline:
                holder = os.pread(handle, 20, 0).decode(errors="replace") or "?"
                os.close(handle)
                raise ProvisionError(
                    f"{fabric}: another hipsnet command (process {holder}) has been changing it for "
                    f"{wait_s:g} s; nothing was changed here: wait for it, or end it, and run this again"
                )
            time.sleep(_PAUSE_S)
        if _is_current(fabric, handle):
            with suppress(OSError):  # on a full disk the next command cannot name this process
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(os.getpid()).encode(), 0)
            return handle
        os.close(handle)  # a destroy removed the file while we waited for it


def _open(fabric: str, deadline: float) -> int:
    """Open the lock file; only root may open it, because a process that can open a file can lock it."""
    path = state.lock_path(fabric)
    while True:
        try:
            state.make_folder(path.parent)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError as error:  # a destroy removed the folder in between
            if time.monotonic() > deadline:
                raise ProvisionError(f"cannot lock {fabric}: {path}: {error.strerror}") from None
        except PermissionError:
            raise CapabilityError(
                f"cannot lock {fabric}: requires write access to {path}; run as root"
            ) from None
        except OSError as error:
            raise ProvisionError(f"cannot lock {fabric}: {path}: {error.strerror}") from None


def _try(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(fabric: str, handle: int) -> bool:
    try:
        there = state.lock_path(fabric).stat()
    except FileNotFoundError:
        return False
    mine = os.fstat(handle)
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def _is_used(fabric: str) -> bool:
    return any(entry.name != state.lock_path(fabric).name for entry in state.folder(fabric).iterdir())
