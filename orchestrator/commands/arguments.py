# SPDX-License-Identifier: Apache-2.0
"""Arguments that several commands have, and how the shell completes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hipsnet.errors import InputError


def _files(incomplete: str) -> Iterator[str]:
    """Folders and YAML files that begin with `incomplete`."""
    head, _, tail = incomplete.rpartition("/")
    folder = f"{head}/" if "/" in incomplete else ""
    try:
        found = sorted(Path(folder or ".").iterdir())
    except OSError:
        return
    for path in found:
        if path.name.startswith(tail) and (path.is_dir() or path.suffix in (".yaml", ".yml")):
            yield f"{folder}{path.name}{'/' if path.is_dir() else ''}"


def _fabric(context: typer.Context) -> Any:
    """The fabric of the file that is already on the command line; None if there is none that can be read."""
    from orchestrator import topology_file  # pydantic takes a while, and `hipsnet <TAB>` needs none

    file = context.params.get("file")
    try:
        return topology_file.load(file)[1] if file else None
    except InputError:
        return None


def _nodes(context: typer.Context, incomplete: str) -> list[str]:
    fabric = _fabric(context)
    return [name for name in fabric.nodes if name.startswith(incomplete)] if fabric else []


def _servers(context: typer.Context, incomplete: str) -> list[str]:
    fabric = _fabric(context)
    return [server.name for server in fabric.servers if server.name.startswith(incomplete)] if fabric else []


def _ports(context: typer.Context, incomplete: str) -> list[str]:
    fabric = _fabric(context)
    if fabric is None:
        return []
    names = [f"{port.node}.{port.name}" for link in fabric.links for port in (link.a, link.b)]
    return sorted(name for name in names if name.startswith(incomplete))


def file_argument(metavar: str = "FILE", text: str = "topology file") -> Any:
    """An argument for the path of a topology file."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=_files)


def server_argument(metavar: str, text: str) -> Any:
    """An argument for a server of the file."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=_servers)


def node_argument(metavar: str, text: str) -> Any:
    """An argument for a server or a switch of the file."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=_nodes)


def port_argument(metavar: str, text: str) -> Any:
    """An argument for a port of the file, like s01.p0."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=_ports)


File = Annotated[Path, file_argument()]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Node = Annotated[
    str | None,
    typer.Option(
        "--node",
        metavar="SERVER",
        help="the server that runs on this host (`nodes` in FILE name hosts)",
        autocompletion=_servers,
    ),
]


def in_range(flag: str, value: float, low: float, high: float) -> None:
    """Raise InputError unless a number of seconds is from `low` to `high`."""
    if not low <= value <= high:
        raise InputError(f"{flag}: found {value:g}; allowed: {low:g} to {high:g} seconds")
