"""Commands `provision, destroy, inspect, ping, exec, impair`: a topology file made real."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator import provisioning, removal, topology_file

app = typer.Typer()
File = Annotated[Path, typer.Argument(metavar="FILE", help="topology file")]


@app.command()
def provision(file: File) -> None:
    """Build the network that FILE describes; a second run changes only what differs."""
    topology, fabric = topology_file.load(file)
    plan = provisioning.provision(topology, fabric, str(file.resolve()), lambda plan: lambda done: None)
    print(len(list(plan.steps())))


@app.command()
def destroy(name: str) -> None:
    print(removal.destroy(name))
