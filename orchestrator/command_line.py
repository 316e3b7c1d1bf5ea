"""All commands as one."""

from __future__ import annotations

import typer

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
