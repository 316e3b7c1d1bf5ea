"""The `hipsnet` command: gathers the commands and turns every error into one message with an exit code."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from hipsnet.errors import HipsnetError
from orchestrator.commands import endpoints, exporter, jobs, lab, machine, pfc, top, topology

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Server-centric networks for distributed training: provision, forward, synchronize.",
)
for group in (topology.app, lab.app, jobs.app, endpoints.app, top.app, exporter.app, machine.app, pfc.app):
    app.add_typer(group)


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 bad input, 3 changes waiting, 130 interrupted."""
    try:
        app()
    except HipsnetError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"hipsnet: {error}", markup=False)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
