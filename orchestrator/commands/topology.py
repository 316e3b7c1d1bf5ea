# SPDX-License-Identifier: Apache-2.0
"""Commands `schema, init, routes, graph`: what a topology file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hipsnet.topology import explain, paths, templates
from orchestrator import topology_file
from orchestrator.views import path_view

app = typer.Typer()
init = typer.Typer(no_args_is_help=True)
app.add_typer(init, name="init", help="Write a commented topology file to start from, to standard output.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="topology file")]
Name = Annotated[str, typer.Option(help="name of the fabric")]
Rate = Annotated[str, typer.Option(help="rate of every port: 500Mbit/s, 10Gbit/s, unlimited")]
Mtu = Annotated[int, typer.Option(help="MTU in bytes, 1280 to 9000")]


@app.command()
def schema() -> None:
    """Print the topology file's JSON Schema, for editors."""
    typer.echo(json.dumps(explain.json_schema(), indent=2))


@init.command("bcube")
def init_bcube(
    ports: Annotated[int, typer.Option(help="n: ports of every switch")],
    levels: Annotated[int, typer.Option(help="k: levels of switches = ports of every server")],
    name: Name = "demo",
    rate: Rate = "500Mbit/s",
    mtu: Mtu = 9000,
) -> None:
    """BCube(n,k): n^k servers with k ports each."""
    typer.echo(templates.bcube(ports, levels, name, rate, mtu), nl=False)


@init.command("torus")
def init_torus(
    dims: Annotated[str, typer.Option(help="servers along each dimension, like 3,3")],
    name: Name = "demo",
    rate: Rate = "500Mbit/s",
    mtu: Mtu = 9000,
) -> None:
    """A torus of any number of dimensions, without switches."""
    typer.echo(templates.torus(dims, name, rate, mtu), nl=False)


@init.command("fattree")
def init_fattree(
    servers: Annotated[int, typer.Option(help="number of servers")],
    nics: Annotated[int, typer.Option(help="ports of every server")] = 1,
    k: Annotated[
        int | None, typer.Option(help="ports of every switch [default: the smallest that fits]")
    ] = None,
    name: Name = "demo",
    rate: Rate = "500Mbit/s",
    mtu: Mtu = 9000,
) -> None:
    """A three-layer Fat-Tree of routers."""
    typer.echo(templates.fattree(servers, nics, k, name, rate, mtu), nl=False)


@app.command()
def routes(
    file: File,
    source: Annotated[str, typer.Argument(metavar="SRC", help="server, like s01 or 01")],
    target: Annotated[str, typer.Argument(metavar="DST", help="another server")],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print the disjoint paths from one server to another."""
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
        Path, typer.Option("--output", "-o", metavar="OUT", help="picture to write: .svg, .png or .dot")
    ],
) -> None:
    """Draw the fabric: BCube by levels, Torus as a grid, Fat-Tree as layers."""
    from orchestrator.views import drawing  # matplotlib takes a second to import: only for those who draw

    topology, fabric = topology_file.load(file)
    drawing.write(topology, fabric, output)
