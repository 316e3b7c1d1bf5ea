# SPDX-License-Identifier: Apache-2.0
"""The `hipsnet` command: runs a command and turns every error into one message with an exit code."""

from __future__ import annotations

import errno
import os
import sys

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
"""What a file may be without anybody's mistake in this program; expected only where the error names the file."""


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 bad input, 3 changes waiting, 128 + n: by signal n."""
    os.umask(os.umask(0o022) | 0o022)  # nobody else may write what root makes
    try:
        from orchestrator.command_line import app  # takes a second, in which an interrupt is one, too

        try:
            app()
        finally:
            sys.stdout.flush()
    except HipsnetError as error:
        _tell(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        if not _is_expected(error):
            raise
        where = f"{error.filename}: " if error.filename else ""
        _tell(f"{where}{error.strerror}")
        sys.exit(1)


def _is_expected(error: OSError) -> bool:
    """Whether the machine is to blame, by a full disk or a folder that cannot be written; else it is a bug."""
    return error.errno in _EXHAUSTED or (error.filename is not None and error.errno in _UNUSABLE)


def _tell(text: str) -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True, highlight=False).print(f"hipsnet: {text}", markup=False)
