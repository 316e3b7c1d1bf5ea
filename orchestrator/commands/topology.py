# SPDX-License-Identifier: Apache-2.0
"""Commands `schema, init, routes, graph`: topology files, without a lab."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from hipsnet.topology import KINDS, FabricKind, explain, paths, templates
from orchestrator import topology_file
from orchestrator.commands.arguments import File, Json, server_argument
from orchestrator.views import path_view

app = typer.Typer()
init = typer.Typer(no_args_is_help=True)
app.add_typer(init, name="init", help="Write a commented topology file to start from, to standard output.")

Name = Annotated[str, typer.Option(help="name of the fabric")]
Rate = Annotated[str, typer.Option(help="rate of every port: 500Mbit/s, 10Gbit/s, unlimited")]
Mtu = Annotated[int, typer.Option(help="MTU in bytes, 1280 to 9000")]


@app.command()
def schema() -> None:
    """Print the topology file's JSON Schema, for editors."""
    typer.echo(json.dumps(explain.json_schema(), indent=2))


def _init_command(kind: type[FabricKind]) -> Callable[..., None]:
    """Return the command that writes a file of this kind; its options are the kind's parameters."""

    def command(name: str, rate: str, mtu: int, **parameters: object) -> None:
        typer.echo(templates.write(kind, parameters, name, rate, mtu), nl=False)

    common = inspect.signature(_common, eval_str=True).parameters.values()
    added = [_parameter(option) for option in templates.options(kind)]
    command.__signature__ = inspect.Signature([*added, *common])  # type: ignore[attr-defined]
    return command


def _common(*, name: Name = "demo", rate: Rate = "500Mbit/s", mtu: Mtu = 9000) -> None:
    """Carry the options that all kinds have."""


_UNLESS_GIVEN = " unless given"


def _typer_option(option: templates.Option) -> Any:
    """A description that ends with "; DEFAULT unless given" names the default of a field without a value."""
    text, _, default = option.help.removesuffix(_UNLESS_GIVEN).rpartition("; ")
    if option.help.endswith(_UNLESS_GIVEN):
        return typer.Option(option.flag, help=text, show_default=default)
    return typer.Option(option.flag, help=option.help)


def _parameter(option: templates.Option) -> inspect.Parameter:
    default = inspect.Parameter.empty if option.is_required else option.default
    written: Any = str if option.is_list else int
    annotation: Any = Annotated[written | None if default is None else written, _typer_option(option)]
    return inspect.Parameter(
        option.field, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


for _kind in KINDS:
    _help = (_kind.__doc__ or "").partition("\n")[0]
    init.command(_kind.kind_name(), help=_help)(_init_command(_kind))


@app.command()
def routes(
    file: File,
    source: Annotated[str, server_argument("SRC", "server, like s01 or 01")],
    target: Annotated[str, server_argument("DST", "another server")],
    as_json: Json = False,
) -> None:
    """Print the paths from one server to another: disjoint ones, or one per NIC."""
    _, fabric = topology_file.load(file)
    found = paths(fabric, source, target)
    if as_json:
        typer.echo(json.dumps(path_view.as_json(fabric, found), indent=2))
    else:
        typer.echo(path_view.as_text(fabric, found))


@app.command()
def graph(
    file: File,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT", help="picture to write: .svg, .pdf, .png or .dot")
    ],
) -> None:
    """Draw the fabric."""
    from orchestrator.views import drawing  # matplotlib takes a second to import

    topology, fabric = topology_file.load(file)
    drawing.write(topology, fabric, output)
