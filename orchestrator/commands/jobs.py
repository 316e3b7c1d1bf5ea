# SPDX-License-Identifier: Apache-2.0
"""Commands `run, schedule`: synchronization on a provisioned fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.commands.engine import Engine, engine_options

app = typer.Typer()
File = Annotated[Path, typer.Argument(metavar="FILE", help="topology file")]
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- COMMAND...]", help="program for every server; without it: measure"),
]


def _measured(*names: str, help: str, metavar: str | None = None, min: int | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, min=min, rich_help_panel="What is measured")


@app.command()
@engine_options()
def run(
    engine: Engine,
    file: File,
    command: Command = None,
    size: Annotated[str | None, _measured(help="one size, like 64MiB", metavar="SIZE")] = None,
    sizes: Annotated[
        str | None, _measured(help="many: FIRST:LAST:xFACTOR, or a list with commas", metavar="SIZES")
    ] = None,
    model: Annotated[
        str | None, _measured(help="a network's gradients: vgg19, lenet5, mnist-1m", metavar="NAME")
    ] = None,
    dtype: Annotated[
        str | None, _measured(help="type of the elements [default: float32]", metavar="NAME")
    ] = None,
    iters: Annotated[int | None, _measured(help="iterations that count [default: 10]", min=1)] = None,
    warmup: Annotated[int | None, _measured(help="iterations before them [default: 2]", min=0)] = None,
    check: Annotated[bool, _measured("--check", help="compare with a sum that is computed apart")] = False,
    json: Annotated[str | None, _measured(help="write the results as JSON", metavar="FILE|-")] = None,
    user: Annotated[
        str | None,
        typer.Option(
            help="run the programs as this user [default: the caller of sudo, else root]", metavar="NAME"
        ),
    ] = None,
) -> None:
    """Synchronize on every server of the lab and show the times; or run your own program there.

    A program finds its place in RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and the engine's
    options in HIPSNET_* variables, which `hipsnet.init()` reads.
    """
    from orchestrator.jobs import running  # numpy and netlink: only for those who run something

    wanted = running.Wanted(size, sizes, model, dtype, iters, warmup, check, json)
    raise typer.Exit(running.run(file, tuple(command or ()), wanted, user, engine))


@app.command()
@engine_options("algorithm", "exchange", "one_way", "servers")
def schedule(
    engine: Engine,
    file: File,
    size: Annotated[str, typer.Option(help="size of the vector")] = "64MiB",
    dtype: Annotated[str, typer.Option(help="type of the elements")] = "float32",
    server: Annotated[
        str | None, typer.Option(help="whose stages to print, like 01 [default: the first; JSON: all]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print the stages of a synchronization as one server sees them, and every port's load."""
    from orchestrator.jobs import schedule_view  # numpy: only for those who look at schedules

    typer.echo(schedule_view.show(file, engine, size, dtype, server, as_json))
