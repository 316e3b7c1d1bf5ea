"""Commands `provision, destroy, inspect, ping, exec, impair`: a topology file made real."""

from __future__ import annotations

import typer

app = typer.Typer()
