# SPDX-License-Identifier: Apache-2.0
"""The command line of tools/vm."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hipsnet.errors import HipsnetError
from tools.virtual_machine.machine import Machine, MachineError, Order

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="command to run in the machine")],
    cpus: Annotated[int, typer.Option(min=1, help="processors")] = 2,
    memory: Annotated[str, typer.Option(help="such as 512M, 1G")] = "1G",
    module: Annotated[list[str], typer.Option(help="kernel module to load first; may be repeated")] = [],  # noqa: B006
    writable: Annotated[
        list[Path], typer.Option(exists=True, file_okay=False, help="folder of this machine to write in")
    ] = [],  # noqa: B006
    kernel: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="image to boot; default: the newest in /boot"),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="seconds for the boot and the command")] = 300.0,
) -> None:
    """Run a command as root under the distribution's kernel, in a virtual machine that sees the files of this host.

    Files that the command writes are discarded, except in folders given as --writable. Exit code: the command's;
    124 after the timeout, 125 if the machine fails.
    """
    order = Order(
        command,
        Path.cwd(),
        cpus=cpus,
        memory=memory,
        modules=module,
        writable=writable,
        timeout_s=timeout,
        kernel=kernel,
        waiting=lambda: print("vm: waiting for another machine to end", file=sys.stderr),
    )
    with Machine(order) as machine:
        for stream, data in machine.outputs():
            where = getattr(sys, stream).buffer
            where.write(data)
            where.flush()
    raise typer.Exit(machine.exit_code or 0)


def main() -> None:
    """Run the command line; an error is one sentence."""
    try:
        app()
    except HipsnetError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"vm: {error}", markup=False)
        sys.exit(error.exit_code if isinstance(error, MachineError) else MachineError.exit_code)


if __name__ == "__main__":
    main()
