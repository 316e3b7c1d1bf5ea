# SPDX-License-Identifier: Apache-2.0
"""Commands `run, calibrate, schedule`: synchronization on a provisioned fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.commands.arguments import File
from orchestrator.commands.engine import Engine, engine_options

app = typer.Typer()
Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- COMMAND...]", help="program to run on every server; without it: measure"),
]


def _measured(
    *names: str,
    help: str,
    default: str = "none",
    metavar: str | None = None,
    min: int | None = None,
    group: str = "What is measured",
) -> Any:
    return typer.Option(
        *names, help=help, show_default=default, metavar=metavar, min=min, rich_help_panel=group
    )


def _of_job(*names: str, help: str, default: str = "none", metavar: str | None = None) -> Any:
    return _measured(*names, help=help, default=default, metavar=metavar, group="The job")


@app.command()
@engine_options()
def run(
    engine: Engine,
    file: File,
    command: Command = None,
    size: Annotated[str | None, _measured(help="one size, such as 64MiB", metavar="SIZE")] = None,
    sizes: Annotated[
        str | None,
        _measured(
            help="sizes: FIRST:LAST:xFACTOR, or a list with commas", default="1KiB:64MiB:x4", metavar="SIZES"
        ),
    ] = None,
    begin: Annotated[
        str | None,
        _measured("--begin", "-b", help="smallest size of a range", default="1KiB", metavar="SIZE"),
    ] = None,
    end: Annotated[
        str | None,
        _measured("--end", "-e", help="largest size of the range", default="64MiB", metavar="SIZE"),
    ] = None,
    factor: Annotated[
        int | None,
        _measured(
            "--factor",
            "-f",
            help="ratio of each size to the one before",
            default="4",
            metavar="NUMBER",
            min=2,
        ),
    ] = None,
    model: Annotated[
        str | None,
        _measured(help="the gradients of a network: vgg19, lenet5, mnist-1m", default="none", metavar="NAME"),
    ] = None,
    dtype: Annotated[
        str | None, _measured(help="type of the elements", default="float32", metavar="NAME")
    ] = None,
    iters: Annotated[
        int | None,
        _measured("--iters", "-n", help="measured iterations", default="10", metavar="NUMBER", min=1),
    ] = None,
    warmup: Annotated[
        int | None,
        _measured(
            "--warmup", "-w", help="unmeasured iterations before them", default="2", metavar="NUMBER", min=0
        ),
    ] = None,
    check: Annotated[
        bool,
        _measured(
            "--check", "-c", help="compare the results with an independently computed sum", default="off"
        ),
    ] = False,
    json: Annotated[
        str | None, _measured(help="write the results as JSON", default="not at all", metavar="FILE|-")
    ] = None,
    collective: Annotated[
        str | None,
        _measured(
            help="all_reduce, reduce_scatter, all_gather, broadcast, ...",
            default="all_reduce",
            metavar="NAME",
        ),
    ] = None,
    root: Annotated[
        int | None,
        _measured(
            help="rank of the root of broadcast, reduce, gather, scatter", default="0", metavar="RANK", min=0
        ),
    ] = None,
    user: Annotated[
        str | None,
        _of_job(
            help="run the programs as this user", default="the caller of sudo, else root", metavar="NAME"
        ),
    ] = None,
    log_dir: Annotated[
        Path | None,
        _of_job(
            help="also write each server's output to DIR/<server>.log", default="not at all", metavar="DIR"
        ),
    ] = None,
    verbose: Annotated[
        bool, _of_job("--verbose", help="show every rank's traceback when the job fails", default="off")
    ] = False,
) -> None:
    """Measure synchronization on all servers of the lab, or run your own program on each of them.

    The program finds its rank in RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and the engine's
    options in HIPSNET_* variables, which `hipsnet.init()` reads. The first failure ends the job, and `run` exits
    with the exit code of that program.
    """
    from orchestrator.jobs import running  # numpy and netlink: imported only when needed
    from orchestrator.jobs.request import Request

    request = Request(
        size, sizes, begin, end, factor, model, dtype, iters, warmup, check, json, collective, root
    )
    options = running.Options(user, log_dir, verbose)
    raise typer.Exit(running.run(file, tuple(command or ()), request, options, engine))


@app.command()
@engine_options("transport", "chunk_bytes", "congestion")
def calibrate(
    engine: Engine,
    file: File,
    sizes: Annotated[
        str | None, typer.Option(help="sizes to measure", show_default="4B to 4MiB", metavar="SIZES")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            help="run the programs as this user", show_default="the caller of sudo, else root", metavar="NAME"
        ),
    ] = None,
) -> None:
    """Measure the algorithms that `--algorithm auto` chooses from, and write the cost model into the file.

    Each is measured at all sizes; call, step, message and byte times are fitted to the medians by least squares on
    relative errors, and written as the section `cost` of the topology file. The rest of the file is unchanged.
    """
    from orchestrator.jobs import calibration, running  # numpy and netlink: imported only when needed

    options = running.Options(user)
    typer.echo(calibration.calibrate(file, sizes or calibration.SIZES, options, engine))


@app.command()
@engine_options("algorithm", "exchange", "one_way", "servers")
def schedule(
    engine: Engine,
    file: File,
    collective: Annotated[
        str, typer.Option(help="all_reduce, all_gather, broadcast, ...", metavar="NAME")
    ] = "all_reduce",
    root: Annotated[
        int, typer.Option(help="rank of the root of broadcast, reduce, gather, scatter", min=0)
    ] = 0,
    size: Annotated[str, typer.Option(help="size of the longest array of a rank")] = "64MiB",
    dtype: Annotated[str, typer.Option(help="type of the elements")] = "float32",
    server: Annotated[
        str | None,
        typer.Option(help="server to print the stages of, such as 01", show_default="the first; JSON: all"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON", show_default="off")] = False,
) -> None:
    """Print the stages of a collective as one server sees them, and every port's load."""
    from hipsnet.collective.collectives import Collective  # numpy: imported only when needed
    from orchestrator.jobs import schedule_view

    chosen = Collective(collective, root)
    typer.echo(schedule_view.show(file, engine, chosen, size, dtype, server, as_json))
