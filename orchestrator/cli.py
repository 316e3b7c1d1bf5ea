"""The `hipsnet` command: runs a command and turns every error into one message with an exit code."""

from __future__ import annotations

import sys

from hipsnet.errors import HipsnetError


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 bad input, 3 changes waiting, 130 interrupted."""
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
    except OSError as error:  # a full disk, a folder that cannot be written
        where = f"{error.filename}: " if error.filename else ""
        _tell(f"{where}{error.strerror or error}")
        sys.exit(1)


def _tell(text: str) -> None:
    from rich.console import Console

    Console(stderr=True, soft_wrap=True, highlight=False).print(f"hipsnet: {text}", markup=False)
