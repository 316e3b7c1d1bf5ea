# SPDX-License-Identifier: Apache-2.0
"""The `hipsnet` command: runs a command and turns every error into one message with an exit code."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import sys
from pathlib import Path

from hipsnet.errors import HipsnetError

_EXHAUSTED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_UNUSABLE = {
    errno.EACCES,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}
"""Errors of a file system that are not a bug of this program, provided that the error names the file."""


BROKEN_PIPE = 128 + signal.SIGPIPE


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 bad input, 3 changes waiting, 128 + n: by signal n."""
    os.umask(os.umask(0o022) | 0o022)  # files of root are writable by root only
    try:
        sys.exit(_run())
    finally:
        if _reader_is_gone():  # prevent a flush at interpreter exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run() -> int | str | None:
    """Run the command line and return its exit code; an error is one message on standard error."""
    try:
        from orchestrator.command_line import app  # takes a second; an interrupt may arrive here as well

        try:
            app()
        finally:
            sys.stdout.flush()
    except SystemExit as end:
        return BROKEN_PIPE if _is_of_broken_pipe(end) else end.code
    except HipsnetError as error:
        _print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:
        if not _is_expected(error):
            raise
        where = error.filename or (_full_output() if error.errno == errno.ENOSPC else None)
        _print_error(f"{where}: {error.strerror}" if where else str(error.strerror))
        return 1
    return 0


def _is_of_broken_pipe(end: SystemExit) -> bool:
    """Whether Rich or Click ended the program with 1 because the reader of standard output has gone."""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, BrokenPipeError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _is_expected(error: OSError) -> bool:
    """Whether the cause is the machine, such as a full disk or an unwritable folder, rather than a bug."""
    return error.errno in _EXHAUSTED or (error.filename is not None and error.errno in _UNUSABLE)


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe without a reader, as after `| head`."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # not a file, or closed
        return False
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _full_output() -> str | None:
    """The path behind standard output if that is a full device, or a file on a full disk."""
    try:
        number = sys.stdout.fileno()
        mode, left = os.fstat(number).st_mode, os.fstatvfs(number).f_bavail
    except (OSError, ValueError):
        return None
    if (stat.S_ISCHR(mode) and not os.isatty(number)) or (stat.S_ISREG(mode) and left == 0):
        return str(Path(f"/proc/self/fd/{number}").readlink())
    return None


def _print_error(text: str) -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True, highlight=False).print(f"hipsnet: {text}", markup=False)
