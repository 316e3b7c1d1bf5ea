# SPDX-License-Identifier: Apache-2.0
"""The user that a program runs as."""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsnet.errors import CapabilityError, InputError


@dataclass(frozen=True)
class Account:
    """A user of this machine, with all groups that the user is in."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def is_current(self) -> bool:
        """Whether this process is that user's already."""
        return self.uid == os.geteuid()

    def environment(self) -> dict[str, str]:
        """The variables that name the user; empty where the user does not change."""
        if self.is_current:
            return {}
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def find(name: str | None, environ: Mapping[str, str] = os.environ) -> Account:
    """The user called `name`; without a name the caller of sudo, or else the user of this process.

    Raises InputError for an unknown user, CapabilityError where this process cannot become that user.
    """
    source = "--user"
    if name is None and os.geteuid() == 0:
        name, source = environ.get("SUDO_USER"), "SUDO_USER"
    try:
        entry = pwd.getpwuid(os.geteuid()) if name is None else pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise InputError(f"{source}: found {name!r}, which is not a user of this machine") from None
    if entry.pw_uid != os.geteuid() != 0:
        raise CapabilityError(f"{source}: running programs as {name} requires root; run as root")
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)


def become(account: Account) -> None:
    """Switch the calling process to that user for good; it loses its capabilities but may pin memory.

    RDMA pins the memory that it registers, and an ordinary user's RLIMIT_MEMLOCK forbids that; the limit is raised
    as far as this process may.
    """
    if account.is_current:
        return
    with contextlib.suppress(ValueError, OSError):  # without CAP_SYS_RESOURCE the hard limit stays
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)


@contextlib.contextmanager
def acting_as(account: Account) -> Iterator[None]:
    """Make and open files as that user for the length of the block, with that user's permissions."""
    if account.is_current:
        yield
        return
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    os.setgroups(account.groups)
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        yield
    finally:
        os.seteuid(uid)
        os.setegid(gid)
        os.setgroups(groups)
