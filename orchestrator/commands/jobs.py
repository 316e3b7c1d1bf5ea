"""Commands `run, schedule`: synchronization on a provisioned fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hipsnet.settings import VARIABLES

app = typer.Typer()
File = Annotated[Path, typer.Argument(metavar="FILE", help="topology file")]
_ROWS = {variable.field: variable for variable in VARIABLES}


def _engine(field: str, help: str, metavar: str = "TEXT") -> Any:
    """The option of an engine setting: its flag, and the variable that it may also come from."""
    row = _ROWS[field]
    return typer.Option(row.flag, envvar=row.name, metavar=metavar, help=help)


@app.command()
def run(
    file: File,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="program for every server; without it: measure"),
    ] = None,
    size: Annotated[str | None, typer.Option(help="measure one size, like 64MiB")] = None,
    sizes: Annotated[
        str | None, typer.Option(help="measure many: FIRST:LAST:xFACTOR, or a list with commas")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="measure a network's gradients: vgg19, lenet5, mnist-1m")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="type of the elements [default: float32]")] = None,
    iters: Annotated[int | None, typer.Option(min=1, help="iterations that count [default: 10]")] = None,
    warmup: Annotated[int | None, typer.Option(min=0, help="iterations before them [default: 2]")] = None,
    check: Annotated[bool, typer.Option("--check", help="compare with a sum that is computed apart")] = False,
    json: Annotated[str | None, typer.Option(metavar="FILE|-", help="write the results as JSON")] = None,
    algorithm: Annotated[str | None, _engine("algorithm", "hips, ring, mesh or ps")] = None,
    exchange: Annotated[
        str | None, _engine("exchange", "inside each level of hips: mesh, ring or ps; one, or one per level")
    ] = None,
    one_way: Annotated[bool, _engine("one_way", "use each torus ring in one direction only")] = False,
    servers: Annotated[str | None, _engine("servers", "parameter servers of ps", "NUMBER")] = None,
    transport: Annotated[str | None, _engine("transport", "what carries the bytes: tcp")] = None,
    port: Annotated[
        str | None, _engine("port", "TCP port of the engine; MASTER_PORT is the next", "NUMBER")
    ] = None,
    timeout: Annotated[
        str | None, _engine("timeout_s", "give a silent peer up after this time", "SECONDS")
    ] = None,
    warn: Annotated[str | None, _engine("warn_s", "warn of a silent peer after this time", "SECONDS")] = None,
    start_timeout: Annotated[
        str | None, _engine("start_timeout_s", "wait this long for all ranks to start", "SECONDS")
    ] = None,
    chunk: Annotated[str | None, _engine("chunk_bytes", "bytes of one write", "BYTES")] = None,
    congestion: Annotated[str | None, _engine("congestion", "TCP congestion control")] = None,
) -> None:
    """Synchronize on every server of the lab and show the times; or run your own program there.

    A program finds its place in RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, and the engine's
    options in HIPSNET_* variables, which `hipsnet.init()` reads.
    """
    from orchestrator import running  # numpy and netlink: only for those who run something

    engine = {
        "algorithm": algorithm,
        "exchange": exchange,
        "one_way": "1" if one_way else None,
        "servers": servers,
        "transport": transport,
        "port": port,
        "timeout_s": timeout,
        "warn_s": warn,
        "start_timeout_s": start_timeout,
        "chunk_bytes": chunk,
        "congestion": congestion,
    }
    wanted = running.Wanted(size, sizes, model, dtype, iters, warmup, check, json)
    raise typer.Exit(running.run(file, tuple(command or ()), wanted, engine))


@app.command()
def schedule(
    file: File,
    algorithm: Annotated[str, _engine("algorithm", "hips, ring, mesh or ps")] = "hips",
    exchange: Annotated[
        str | None, _engine("exchange", "inside each level of hips: mesh, ring or ps; one, or one per level")
    ] = None,
    one_way: Annotated[bool, _engine("one_way", "use each torus ring in one direction only")] = False,
    servers: Annotated[str | None, _engine("servers", "parameter servers of ps", "NUMBER")] = None,
    size: Annotated[str, typer.Option(help="size of the vector")] = "64MiB",
    dtype: Annotated[str, typer.Option(help="type of the elements")] = "float32",
    server: Annotated[
        str | None, typer.Option(help="whose stages to print, like 01 [default: the first; JSON: all]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print the stages of a synchronization as one server sees them, and every port's load."""
    from orchestrator import schedule_view  # numpy: only for those who look at schedules

    engine = {
        "algorithm": algorithm,
        "exchange": exchange,
        "one_way": "1" if one_way else None,
        "servers": servers,
    }
    typer.echo(schedule_view.show(file, engine, size, dtype, server, as_json))
