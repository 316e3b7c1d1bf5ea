# SPDX-License-Identifier: Apache-2.0
"""The state of a fabric between two commands: its record under /run/hipsnet/<fabric>/."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from hipsnet import ownership

ROOT = Path("/run/hipsnet")
_RECORD = "record.json"
_LOCK = "lock"
_ADVICE = "hipsnet keeps there what it has made: remove it, or give it back to root and close it to others"


@dataclass(frozen=True)
class Record:
    """The intent of a provision, written before anything is made, so that the remains of a killed run are found.

    `nodes` are all names that may have been made, `file` is the absolute path of the topology file.
    """

    file: str
    nodes: tuple[str, ...]


def folder(fabric: str) -> Path:
    """The folder of a fabric's state."""
    return ROOT / fabric


def record_path(fabric: str) -> Path:
    """The file that holds the record of a fabric."""
    return folder(fabric) / _RECORD


def lock_path(fabric: str) -> Path:
    """The file that is locked while a command changes the fabric."""
    return folder(fabric) / _LOCK


def read(fabric: str) -> Record | None:
    """The record of a fabric; None if there is none (or one that was torn by the machine's end).

    Raises CapabilityError if others could have written it.
    """
    check_folder(folder(fabric))
    try:
        found = json.loads(record_path(fabric).read_text())
        return Record(found["file"], tuple(found["nodes"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write(fabric: str, record: Record) -> None:
    """Replace the record of a fabric atomically."""
    write_json(record_path(fabric), asdict(record))


def write_json(path: Path, content: object) -> None:
    """Write a JSON file whole or not at all."""
    write_text(path, json.dumps(content, indent=1))


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by all. Raises CapabilityError if others could write there."""
    make_folder(path.parent)
    part = path.with_name(f".{path.name}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None


def make_folder(path: Path) -> None:
    """Make a folder for state with its parents. Raises CapabilityError if others could write there."""
    ownership.make_private(path, 0o755, _ADVICE)


def check_folder(path: Path) -> None:
    """Raise CapabilityError if others could write in a folder for state."""
    ownership.require_private(path, _ADVICE)


def forget(fabric: str) -> None:
    """Remove the record of a fabric, and nothing else."""
    record_path(fabric).unlink(missing_ok=True)


def remove(fabric: str) -> None:
    """Remove the state of a fabric. Called with its lock held; the lock file is removed last."""
    home = folder(fabric)
    if not home.is_dir():
        return
    for entry in home.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()
    lock_path(fabric).unlink(missing_ok=True)
    remove_empty(home)


def remove_empty(home: Path) -> None:
    """Remove a fabric's folder, and the root folder, if they are empty."""
    for place in (home, ROOT):
        with contextlib.suppress(OSError):
            place.rmdir()


def fabrics() -> tuple[str, ...]:
    """The names of all fabrics with stored state, sorted."""
    if not ROOT.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in ROOT.iterdir() if entry.is_dir()))
