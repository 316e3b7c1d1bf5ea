# SPDX-License-Identifier: Apache-2.0
"""Command `help`: the topics, and the help of every command."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from hipsnet.errors import InputError
from orchestrator.help import topics

app = typer.Typer()


def _completed(incomplete: str) -> list[str]:
    return [name for name in topics.names() if name.startswith(incomplete)]


@app.command(name="help")
def show(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="a topic, or a command", autocompletion=_completed)
    ] = None,
) -> None:
    """Explain a topic (topology-file, units, addresses, environment, transports, exit-codes) or a command."""
    if topic is None:
        for name in topics.names():
            typer.echo(f"{name:<16}{topics.title(name)}")
        typer.echo("\n`hipsnet help TOPIC` prints a topic, `hipsnet COMMAND -h` the help of a command.")
    elif topic in topics.names():
        console = Console(highlight=False)
        if console.is_terminal:
            console.print(Markdown(topics.text(topic)))
        else:
            typer.echo(topics.text(topic), nl=False)
    else:
        _show_command(context, topic)


def _show_command(context: typer.Context, name: str) -> None:
    above = context.parent
    commands = above.command if above else context.command
    found = commands.get_command(above, name)  # type: ignore[attr-defined]
    if found is None:
        known = [*topics.names(), *commands.list_commands(above)]  # type: ignore[attr-defined]
        near = difflib.get_close_matches(name, known, 3, 0.5) or topics.names()
        raise InputError(f"no topic or command {name!r}; did you mean {', '.join(near)}?")
    found.main(["--help"], prog_name=f"hipsnet {name}", standalone_mode=False)
