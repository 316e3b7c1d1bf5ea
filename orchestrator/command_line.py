# SPDX-License-Identifier: Apache-2.0
"""The table of all commands; the modules of a command are imported when it is called."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

import hipsnet as library

MODULES = {
    "topology": ("schema", "routes", "graph", "init"),
    "lab": ("provision", "destroy", "inspect", "ping", "exec", "shell", "impair"),
    "listing": ("list",),
    "jobs": ("run", "calibrate", "schedule"),
    "prediction": ("predict", "plan", "export"),
    "endpoints": ("endpoints",),
    "top": ("top",),
    "exporter": ("exporter",),
    "machine": ("doctor",),
    "pfc": ("pfc",),
    "help": ("help",),
}
"""The modules of `orchestrator.commands`, with their commands."""


class _Commands(TyperGroup):
    """Imports the module of a command when it is called: importing all of them takes a second."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._modules = {command: module for module, commands in MODULES.items() for command in commands}
        self._named_only = False
        self.commands = dict.fromkeys(self._modules)  # type: ignore[assignment]

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the names of commands, without their help: that would import all of them."""
        self._named_only = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._named_only = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self._modules:
            return None
        if self._named_only:
            return TyperCommand(cmd_name)
        module = _imported(f"orchestrator.commands.{self._modules[cmd_name]}")
        return get_group(module.app).get_command(ctx, cmd_name)


def _imported(name: str) -> ModuleType:
    """Import a module, without garbage collection: modules stay for the life of the process."""
    if name not in sys.modules:
        gc.disable()
        try:
            import_module(name)
            gc.freeze()
        finally:
            gc.enable()
    return sys.modules[name]


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(given: bool) -> None:
    if given:
        typer.echo(f"hipsnet {library.__version__}")
        raise typer.Exit


@app.callback()
def hipsnet(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit"),
    ] = False,
) -> None:
    """Server-centric networks for distributed training: provision, forward, synchronize."""
