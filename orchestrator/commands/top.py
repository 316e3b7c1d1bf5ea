# SPDX-License-Identifier: Apache-2.0
"""Command `top`: the ports of a fabric, live, or one sample for scripts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hipsnet.errors import InputError
from orchestrator import topology_file
from orchestrator.commands.arguments import File, Node, in_range

app = typer.Typer()


@app.command()
def top(
    file: File,
    node: Node = None,
    interval: Annotated[float, typer.Option(help="seconds between two readings, 0.1 to 60")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="print a table of one interval")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print one interval as JSON")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="print one interval as CSV")] = False,
) -> None:
    """Show pauses, traffic, losses and buffers of every port and priority, live (press `?` for help)."""
    in_range("--interval", interval, 0.1, 60)
    if once + as_json + as_csv > 1:
        raise InputError("--once, --json and --csv exclude each other; give one of them")
    if not (once or as_json or as_csv or sys.stdout.isatty()):
        raise InputError("standard output is not a terminal; give --once, --json or --csv")
    from orchestrator.telemetry import watching  # numpy takes long to import

    topology, fabric = topology_file.load(file)
    with watching.watch(topology, fabric, node) as (ports, sources):
        if once or as_json or as_csv:
            from orchestrator.telemetry import printing

            snapshot = watching.one_interval(ports, sources, interval)
            show = printing.as_json if as_json else printing.as_csv if as_csv else printing.as_table
            show(snapshot)
            return
        from orchestrator.telemetry.monitor import Monitor
        from orchestrator.top.app import TopApp

        TopApp(ports, Monitor(ports, sources.read), interval).run()
