"""Commands `doctor`: what this machine can do."""

from __future__ import annotations

import typer

app = typer.Typer()
