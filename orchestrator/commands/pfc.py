"""Commands `pfc ...`: priority flow control in the operator's hands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hipsnet.errors import InputError
from orchestrator import pfc_view, topology_file

app = typer.Typer()
pfc = typer.Typer(no_args_is_help=True)
app.add_typer(pfc, name="pfc", help="Priority flow control: what its thresholds are, and why.")

_WIDTH = 120


@pfc.command()
def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="topology file")],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show how the headroom of every port comes about, part by part, and the thresholds that hold."""
    topology, fabric = topology_file.load(file)
    groups = pfc_view.explained(topology, fabric)
    if as_json:
        typer.echo(json.dumps(pfc_view.as_json(topology, groups), indent=2))
        return
    console = _console()
    for part in pfc_view.parts(topology, groups):
        console.print(part)


@pfc.command()
def events(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="topology file")],
    node: Annotated[
        str | None, typer.Option("--node", help="the server that this machine plays (hosts)")
    ] = None,
    seconds: Annotated[float, typer.Option(help="how long to look for deadlocks, 0.1 to 60")] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show the storms that the watchdog has detected, and queues that wait in a circle now."""
    if not 0.1 <= seconds <= 60:
        raise InputError(f"--seconds: found {seconds:g}; wanted 0.1 to 60")
    from orchestrator import pfc_events_view  # numpy: only for those who look at numbers
    from orchestrator.telemetry import watching
    from orchestrator.telemetry.watchdog import told

    topology, fabric = topology_file.load(file)
    with watching.watch(topology, fabric, node) as (ports, sources):
        snapshot = watching.one_interval(ports, sources, seconds)
    found = told(fabric)
    if as_json:
        typer.echo(json.dumps(pfc_events_view.as_json(topology, found, snapshot.deadlocks), indent=2))
        return
    console = _console()
    for part in pfc_events_view.parts(topology, found, snapshot.deadlocks):
        console.print(part)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)
