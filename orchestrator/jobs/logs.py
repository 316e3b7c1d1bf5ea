# SPDX-License-Identifier: Apache-2.0
"""The log files of a job: one for each server, with everything that its program has printed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from hipsnet.errors import InputError
from orchestrator.jobs.launch import Stream, Write
from orchestrator.lab.account import Account, acting_as


@contextlib.contextmanager
def logs(folder: Path | None, servers: Sequence[str], account: Account) -> Iterator[Write]:
    """Make FOLDER/<server>.log for each server; yields the function that appends a line (nothing without a folder).

    The files, and the folder if missing, are made as the job's user; they replace those of an earlier job. Raises
    InputError if that fails. A file that can no longer be written (a full disk) is named once on stderr, and the
    job continues.
    """
    if folder is None:
        yield lambda *_: None
        return
    with contextlib.ExitStack() as stack:
        try:
            with acting_as(account):
                folder.mkdir(parents=True, exist_ok=True)
                files = [stack.enter_context(_opened(folder / f"{name}.log")) for name in servers]
        except OSError as error:
            raise InputError(
                f"--log-dir: {account.name} cannot write {error.filename or folder}: {error.strerror}"
            ) from None
        broken: set[int] = set()

        def write(program: int, _: Stream, line: bytes) -> None:
            if program not in broken and not _append(files[program], line):
                broken.add(program)

        yield write


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A file without a buffer: a line is in it at once, also when the launcher is killed."""
    with path.open("wb", buffering=0) as file:
        yield file


def _append(file: BinaryIO, line: bytes) -> bool:
    try:
        file.write(line + b"\n")
    except OSError as error:
        print(f"hipsnet: warning: {file.name} is incomplete: {error.strerror}", file=sys.stderr)
        return False
    return True
