# SPDX-License-Identifier: Apache-2.0
"""Commands `predict, plan, export`: synchronization on fabrics that need not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.commands.arguments import File, Json
from orchestrator.commands.engine import Engine, engine_options

app = typer.Typer()


def _option(*names: str, help: str, default: str, metavar: str | None = None, group: str) -> Any:
    return typer.Option(*names, help=help, show_default=default, metavar=metavar, rich_help_panel=group)


def _what(*names: str, help: str, default: str = "none", metavar: str | None = None) -> Any:
    return _option(*names, help=help, default=default, metavar=metavar, group="What is predicted")


def _where(*names: str, help: str, default: str = "none", metavar: str | None = None) -> Any:
    return _option(*names, help=help, default=default, metavar=metavar, group="The conditions")


def _output(*names: str, help: str, default: str = "none", metavar: str | None = None) -> Any:
    return _option(*names, help=help, default=default, metavar=metavar, group="Results")


@app.command()
@engine_options("exchange", "one_way", "servers", "chunk_bytes")
def predict(
    engine: Engine,
    file: File,
    algorithm: Annotated[
        str,
        _what(help="hips, ring, mesh, ps; or all that the fabric supports", default="hips", metavar="NAME"),
    ] = "hips",
    size: Annotated[str | None, _what(help="one size, such as 64MiB", metavar="SIZE")] = None,
    sizes: Annotated[
        str | None,
        _what(
            help="sizes: FIRST:LAST:xFACTOR, or a list with commas", default="1KiB:64MiB:x4", metavar="SIZES"
        ),
    ] = None,
    model: Annotated[
        str | None, _what(help="the gradients of a network: vgg19, lenet5, mnist-1m", metavar="NAME")
    ] = None,
    dtype: Annotated[str, _what(help="type of the elements", default="float32", metavar="NAME")] = "float32",
    against: Annotated[
        list[Path] | None,
        _what(help="another topology file to compare with; may be repeated", metavar="FILE"),
    ] = None,
    closed: Annotated[
        bool,
        _what("--closed", help="closed forms only: takes no time, also for 4,096 servers", default="off"),
    ] = False,
    latency: Annotated[
        str, _where(help="added to every message, such as 10us", default="0us", metavar="TIME")
    ] = "0us",
    rate: Annotated[
        str | None, _where(help="rate of all ports", default="that of the file", metavar="RATE")
    ] = None,
    cpu: Annotated[
        str | None,
        _where(help="what a server sends and receives at most, in all", default="unlimited", metavar="RATE"),
    ] = None,
    degrade: Annotated[
        list[str] | None,
        _where(help="a cable with less rate: s11.p0=50%; 0 is dead; may be repeated", metavar="PORT=SHARE"),
    ] = None,
    late: Annotated[
        list[str] | None,
        _where(help="a server that enters late: s01=1s; may be repeated", metavar="SERVER=TIME"),
    ] = None,
    seed: Annotated[int, _where(help="selects among ways of equal cost", default="0", metavar="NUMBER")] = 0,
    quantum: Annotated[
        str,
        _where(help="events within this time are one: faster, less exact", default="0us", metavar="TIME"),
    ] = "0us",
    measured: Annotated[
        list[Path] | None,
        _output(help="add the times that `hipsnet run --json` has written; may be repeated", metavar="FILE"),
    ] = None,
    picture: Annotated[
        Path | None, _output("--output", "-o", help="draw a picture: .svg, .pdf or .png", metavar="FILE")
    ] = None,
    json: Annotated[
        str | None, _output(help="write the results as JSON", default="not at all", metavar="FILE|-")
    ] = None,
) -> None:
    """Predict how long synchronization takes on the fabric of FILE, which need not be provisioned.

    Prints the physical limit, the closed forms and the time of a fluid simulation: the segments and dependencies of
    the real plan, over the routes of the fabric, which share cables fairly. Real queues are never faster.
    """
    from orchestrator.jobs.request import Request  # numpy: imported only when needed
    from orchestrator.prediction import predicting
    from orchestrator.prediction.asked import Options

    options = Options(
        algorithm,
        dtype,
        latency,
        rate,
        cpu,
        tuple(degrade or ()),
        tuple(late or ()),
        quantum,
        seed,
        not closed,
    )
    outputs = predicting.Outputs(json, picture, tuple(measured or ()))
    request = Request(size=size, sizes=sizes, model=model, dtype=dtype)
    predicting.predict((file, *(against or ())), request, options, outputs, engine)


@app.command()
def plan(
    servers: Annotated[int, typer.Option(help="number of servers", metavar="NUMBER")],
    ports: Annotated[int, typer.Option(help="ports of a server at most, 1 to 16", metavar="NUMBER")],
    switch_ports: Annotated[
        int, typer.Option(help="ports of a switch at most; 0: no switches", metavar="NUMBER")
    ],
    rate: Annotated[str, typer.Option(help="rate of all ports, such as 100Gbit/s", metavar="RATE")],
    model: Annotated[
        str, typer.Option(help="the gradients that are synchronized: vgg19, lenet5, mnist-1m", metavar="NAME")
    ] = "vgg19",
    latency: Annotated[str, typer.Option(help="added to every message", metavar="TIME")] = "0us",
    price_port: Annotated[
        float, typer.Option(help="price of a server's port", metavar="PRICE", show_default="0")
    ] = 0,
    price_cable: Annotated[
        float, typer.Option(help="price of a cable", metavar="PRICE", show_default="0")
    ] = 0,
    price_switch: Annotated[
        float, typer.Option(help="price of a switch", metavar="PRICE", show_default="0")
    ] = 0,
    price_switch_port: Annotated[
        float, typer.Option(help="price of each port in use on a switch", metavar="PRICE", show_default="0")
    ] = 0,
    as_json: Json = False,
) -> None:
    """List every fabric that can be built from given parts: cost, bisection, diameter, and time to synchronize.

    `time` is the pipelined closed form of the best algorithm among hips, ring and mesh. `one dead port` is the
    least factor by which it slows all servers, if the others take over the pieces of its server.
    """
    from hipsnet.predict.planning import Parts, Prices
    from orchestrator.prediction import asked, plan_view

    parts = Parts(servers, ports, switch_ports, asked.rate("--rate", rate))
    prices = Prices(price_port, price_cable, price_switch, price_switch_port)
    found = plan_view.planned(parts, prices, model, asked.seconds("--latency", latency))
    if as_json:
        typer.echo(plan_view.as_json(parts, prices, model, found))
        return
    for line in plan_view.lines(parts, model, found):
        typer.echo(line)


@app.command()
@engine_options("algorithm", "exchange", "one_way", "servers")
def export(
    engine: Engine,
    file: File,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="msccl (XML for GPUs), chakra (execution traces) or astra (a network for ASTRA-sim)",
            metavar="NAME",
        ),
    ],
    size: Annotated[
        str | None,
        typer.Option(help="size of the vector; msccl: checked only", metavar="SIZE", show_default="none"),
    ] = None,
    latency: Annotated[str, typer.Option(help="astra: latency of a cable", metavar="TIME")] = "0us",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="the file; chakra: PREFIX of one file for each rank",
            metavar="FILE",
            show_default="standard output",
        ),
    ] = None,
) -> None:
    """Write a synchronization, or the fabric, for another engine or simulator.

    A format's limits are checked first; the message names the limit that is exceeded.
    """
    from orchestrator.prediction import exporting

    exporting.export(file, form, size, latency, output, engine)
