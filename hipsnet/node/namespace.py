# SPDX-License-Identifier: Apache-2.0
"""Named network namespaces: enter, create, find and delete them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hipsnet.errors import ProvisionError
from hipsnet.node.netlink import Netlink, get_attrs
from hipsnet.node.system_calls import check, libc

NAMED = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED = 0x1000, 0x4000, 1 << 20
_MNT_DETACH = 2
_LOOPBACK = 1
_LOCK_S, _PAUSE_S = 10.0, 0.05


@contextmanager
def inside(name: str | None) -> Iterator[None]:
    """Run the block in the namespace `name` (None: the current one). Only the calling thread moves.

    Sockets opened inside stay in that namespace afterwards. Raises ProvisionError if there is no such namespace.
    """
    if name is None:
        yield
        return
    with handle(name) as found, inside_handle(found):
        yield


@contextmanager
def handle(name: str) -> Iterator[int]:
    """A file descriptor of the namespace `name`. Raises ProvisionError if there is no such namespace."""
    try:
        found = os.open(NAMED / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ProvisionError(f"there is no namespace {name}; run `hipsnet provision` again") from None
    try:
        yield found
    finally:
        os.close(found)


@contextmanager
def inside_handle(handle: int) -> Iterator[None]:
    """Run the block in the namespace behind a file descriptor."""
    home = _own()
    try:
        _enter(handle)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def enter(name: str) -> None:
    """Move the calling thread into the namespace `name` for good."""
    handle = os.open(NAMED / name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(handle)
    finally:
        os.close(handle)


def create(name: str, mark: str) -> None:
    """Create the namespace `name`. Its loopback carries `mark` as alias before the name is visible.

    An unmounted empty file of that name, left by a killed run, is taken over: the caller has checked that it is
    hipsnet's. Raises CapabilityError without the privilege to create namespaces.
    """
    _prepare_folder()
    home = _own()
    try:
        check(libc.unshare(_CLONE_NEWNET), f"make namespace {name}")
        try:
            with Netlink() as netlink:
                netlink.link("set", index=_LOOPBACK, ifalias=mark, state="up")
            path = NAMED / name
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))
            _mount("/proc/thread-self/ns/net", path, _MS_BIND, f"name namespace {name}")
        finally:
            _enter(home)
    finally:
        os.close(home)


def delete(name: str) -> None:
    """Remove the name; the kernel deletes the namespace when nothing uses it any more.

    No error if there is no such name.
    """
    path = NAMED / name
    while libc.umount2(os.fsencode(path), _MNT_DETACH) == 0:
        continue
    path.unlink(missing_ok=True)


def names() -> tuple[str, ...]:
    """The names of all namespaces (and of unmounted leftovers), sorted."""
    try:
        return tuple(sorted(entry.name for entry in NAMED.iterdir()))
    except FileNotFoundError:
        return ()


def is_leftover(name: str) -> bool:
    """Whether `name` is only an empty file: a namespace that was never mounted, or was unmounted."""
    path = NAMED / name
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return status.st_dev == NAMED.stat().st_dev and status.st_size == 0


def mark_of(name: str) -> str | None:
    """The alias of the loopback in the namespace `name`; None if it has none, or is no namespace."""
    try:
        handle = os.open(NAMED / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return mark_of_handle(handle)
    finally:
        os.close(handle)


def mark_of_handle(handle: int) -> str | None:
    """The alias of the loopback in the namespace behind a file descriptor; None if it has none."""
    try:
        with inside_handle(handle), Netlink() as netlink:
            (loopback,) = netlink.get_links(_LOOPBACK)
            (alias,) = get_attrs(loopback, "IFLA_IFALIAS")
    except OSError as error:
        if error.errno == errno.EINVAL:  # setns: the file is no namespace
            return None
        raise
    return None if alias is None else str(alias)


def _own() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _enter(handle: int) -> None:
    check(libc.setns(handle, _CLONE_NEWNET), "enter a network namespace")


def _prepare_folder() -> None:
    """Make /run/netns a shared mount as `ip netns` does; otherwise a later mount of its would hide this one."""
    NAMED.mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = os.open(NAMED, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(lock)
        if libc.mount(b"", os.fsencode(NAMED), b"none", _MS_SHARED | _MS_REC, None) == 0:
            return
        if ctypes.get_errno() != errno.EINVAL:
            check(-1, f"share {NAMED}")
        _mount(NAMED, NAMED, _MS_BIND | _MS_REC, f"mount {NAMED}")
        _mount("", NAMED, _MS_SHARED | _MS_REC, f"share {NAMED}")
    finally:
        os.close(lock)


def _lock(folder: int) -> None:
    """Wait for the lock of /run/netns, with a limit: everybody can open the folder, and lock it."""
    deadline = time.monotonic() + _LOCK_S
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ProvisionError(
                    f"{NAMED} has been locked by another process for {_LOCK_S:g} s; find it with `lslocks`, "
                    "end it, and run this again"
                ) from None
        time.sleep(_PAUSE_S)


def _mount(source: str | Path, target: Path, flags: int, wish: str) -> None:
    result = libc.mount(os.fsencode(source), os.fsencode(target), b"none", flags, None)
    check(result, wish)
