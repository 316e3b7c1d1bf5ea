"""Commands `pfc ...`: priority flow control in the operator's hands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDTH)
    for part in pfc_view.parts(topology, groups):
        console.print(part)
