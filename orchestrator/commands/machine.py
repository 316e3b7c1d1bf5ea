# SPDX-License-Identifier: Apache-2.0
"""Command `doctor`: what this machine supports."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hipsnet.errors import InputError
from orchestrator import topology_file
from orchestrator.commands.arguments import Json, Node, file_argument
from orchestrator.machine.doctor import Check, can_run_lab, examine, examine_ports

app = typer.Typer()


@app.command()
def doctor(
    file: Annotated[Path | None, file_argument("[FILE]")] = None,
    node: Node = None,
    as_json: Json = False,
) -> None:
    """Report what this machine supports and how to install the rest; exit code 1 if it cannot run a lab.

    With FILE also: the RDMA devices of the ports that this machine has in the file.
    """
    if node is not None and file is None:
        raise InputError("--node needs a topology file")
    ports = () if file is None else examine_ports(*topology_file.load(file), node)
    checks = examine() + ports
    able = can_run_lab(checks)
    if as_json:
        typer.echo(
            json.dumps({"ok": able, "checks": [dataclasses.asdict(check) for check in checks]}, indent=2)
        )
    else:
        _print(checks, able)
    if not able:
        raise typer.Exit(1)


def _print(checks: tuple[Check, ...], able: bool) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("found", overflow="fold")
    for check in checks:
        state = "[green]ok[/]" if check.ok else "[red]missing[/]" if check.needed else "[yellow]missing[/]"
        table.add_row(check.name, state, check.found)
        if check.fix:
            table.add_row("", "", f"-> {check.fix}")
    console = Console(highlight=False)
    console.print(table)
    console.print("This machine can run the lab." if able else "This machine cannot run the lab yet.")
