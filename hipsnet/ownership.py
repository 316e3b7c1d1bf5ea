# SPDX-License-Identifier: Apache-2.0
"""Folders with trusted content: only root and the user of this process can change it.

Compiled code is loaded from one, and the state of a fabric is read from another: a user who can write there, or put
another folder in their place, decides what root runs.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from hipsnet.errors import CapabilityError

CACHE_ADVICE = (
    "compiled code is loaded from there: unset XDG_CACHE_HOME (sudo without -E), or let it name a folder that "
    "only root and you can write to, with all its parents"
)
_MOST_LINKS = 40  # the kernel's limit, too


def require_private(folder: Path, advice: str) -> None:
    """Raise CapabilityError if another user could write in a folder, or replace it or one of its parents.

    Every folder on the way and every symbolic link has to belong to root or to the caller. Nobody else may have
    write permission, except in a parent with the sticky bit (/tmp), where others cannot replace what is not
    theirs. Folders that do not exist yet are passed over. The message ends with `advice`.
    """
    for place, status in _way_to(folder):
        owned = status.st_uid in (0, os.geteuid())
        link = stat.S_ISLNK(status.st_mode)
        sticky = bool(status.st_mode & stat.S_ISVTX) and place != Path(os.path.realpath(folder))
        if owned and (link or sticky or not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            continue
        found = (
            f"can be written by others ({stat.filemode(status.st_mode)})"
            if owned
            else f"belongs to {_name(status.st_uid)}"
        )
        subject = folder if place == folder else f"{folder}: {place}"
        raise CapabilityError(f"{subject} {found}, so it is not trusted by {_name(os.geteuid())}; {advice}")


def make_private(folder: Path, mode: int, advice: str) -> None:
    """Make a folder, and the parents that are missing, with this mode; raises as `require_private`."""
    require_private(folder, advice)
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=mode, exist_ok=True)
    require_private(folder, advice)


def is_private_file(path: Path) -> bool:
    """Whether the path is a regular file that only root or the caller can have written."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid()) and not shared


def _way_to(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every folder and symbolic link that the kernel passes on the way to `folder`, from / on."""
    here, links = Path("/"), 0
    yield here, here.lstat()
    waiting = [*reversed(Path.cwd().joinpath(folder).parts[1:])]
    while waiting:
        part = waiting.pop()
        if part == "..":
            here = here.parent
            continue
        here /= part
        try:
            status = here.lstat()
        except FileNotFoundError:
            return
        yield here, status
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(folder))
            target = here.readlink()
            here = Path("/") if target.is_absolute() else here.parent
            waiting += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
