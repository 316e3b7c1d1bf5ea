"""Commands `run, schedule`: synchronization on a provisioned fabric."""

from __future__ import annotations

import typer

app = typer.Typer()
