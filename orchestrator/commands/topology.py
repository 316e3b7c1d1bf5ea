"""Commands `schema, init, routes, graph`: what a topology file says."""

from __future__ import annotations

import typer

app = typer.Typer()
