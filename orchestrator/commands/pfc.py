# SPDX-License-Identifier: Apache-2.0
"""Commands `pfc ...`: headroom, events and tuning of priority flow control."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from hipsnet.errors import InputError
from hipsnet.units import given, parse_size
from orchestrator import topology_file
from orchestrator.commands.arguments import File, Json, Node, in_range
from orchestrator.pfc import headroom_view

app = typer.Typer()
pfc = typer.Typer(no_args_is_help=True)
app.add_typer(pfc, name="pfc", help="Priority flow control: headroom, thresholds, events.")

_WIDTH = 124


@pfc.command()
def explain(
    file: File,
    as_json: Json = False,
) -> None:
    """Show the parts of the headroom of every port, and the thresholds."""
    topology, fabric = topology_file.load(file)
    groups = headroom_view.explained(topology, fabric)
    if as_json:
        typer.echo(json.dumps(headroom_view.as_json(topology, groups), indent=2))
        return
    console = _console()
    for part in headroom_view.parts(topology, groups):
        console.print(part)


@pfc.command()
def events(
    file: File,
    node: Node = None,
    seconds: Annotated[float, typer.Option(help="seconds to watch for deadlocks, 0.1 to 60")] = 1.0,
    as_json: Json = False,
) -> None:
    """Show the storms that the watchdog detected, deadlocks, and background processes that are not running."""
    in_range("--seconds", seconds, 0.1, 60)
    from orchestrator.pfc import events_view  # numpy takes long to import
    from orchestrator.telemetry import watching
    from orchestrator.telemetry.watchdog import read_events

    topology, fabric = topology_file.load(file)
    with watching.watch(topology, fabric, node) as (ports, sources):
        snapshot = watching.one_interval(ports, sources, seconds)
    found = read_events(fabric)
    if as_json:
        typer.echo(json.dumps(events_view.as_json(topology, found, snapshot), indent=2))
        return
    console = _console()
    for part in events_view.parts(topology, found, snapshot):
        console.print(part)


@pfc.command()
def tune(
    file: File,
    xoff: Annotated[
        list[str] | None,
        typer.Option(help="XOFF to try; may be given several times", show_default="shares of the buffer"),
    ] = None,
    seconds: Annotated[float, typer.Option(help="duration of each incast in seconds, 0.2 to 60")] = 1.0,
    size: Annotated[str, typer.Option(help="size of each HiPS synchronization")] = "1MiB",
    iters: Annotated[int, typer.Option(min=1, help="synchronizations per setting")] = 5,
    picture: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", help="picture to write: .svg, .pdf or .png"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Try XOFF, XON and ECN thresholds on the lossless switches of a lab, and propose the best.

    The best setting has the least pause time among those that lose no frames, keep the full goodput of an incast,
    and synchronize fast. The switches restart for each setting; afterwards their own settings are restored.
    """
    from orchestrator.pfc import tuning, tuning_trials, tuning_view  # numpy takes long to import

    in_range("--seconds", seconds, 0.2, 60)
    if picture is not None and picture.suffix.lower() not in (".svg", ".pdf", ".png"):
        raise InputError(f"--output: found {str(picture)!r}; allowed: a name that ends in .svg, .pdf or .png")
    topology, fabric = topology_file.load(file)
    tuning_trials.require(topology, fabric)
    effort = tuning_trials.Effort(seconds, given("--size", size, parse_size), iters)
    settings = tuning.grid(topology, [given("--xoff", text, parse_size) for text in xoff or ()])
    with tuning_view.progress(len(settings)) as report:
        trials = tuning_trials.tried(file, settings, effort, report)
    document = yaml.safe_load(file.read_text())
    if picture is not None:
        tuning_view.draw(topology, trials, picture)
    if as_json:
        typer.echo(json.dumps(tuning_view.as_json(topology, document, trials), indent=2))
        return
    console = _console()
    for part in tuning_view.parts(topology, document, trials):
        console.print(part)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)
