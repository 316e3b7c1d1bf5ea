# SPDX-License-Identifier: Apache-2.0
"""Commands `provision, destroy, inspect, ping, exec, shell, impair`: the network of a topology file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hipsnet.errors import InputError
from hipsnet.node.change import Change
from hipsnet.topology import Fabric, Topology
from orchestrator import topology_file
from orchestrator.commands.arguments import File, Json, Node, node_argument, port_argument
from orchestrator.lab import execution, fabrics, ping_view, pinging
from orchestrator.provision import hosts, impairment, inspection, plan_view, provisioning, removal
from orchestrator.provision.interruption import completable, nodes_there
from orchestrator.provision.plan import Plan, make_plan

app = typer.Typer()
Server = Annotated[str, node_argument("SERVER", "s01, 01, or a switch")]
CHANGES_WAITING = 3
_WIDTH = 140


@app.command()
def provision(
    file: File,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the changes without making them")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="with --dry-run: exit code 3 if there are changes")
    ] = False,
    node: Node = None,
    as_json: Json = False,
) -> None:
    """Build the network of FILE; a second run changes only what differs.

    Without --node: the lab on this machine. With --node: the part of one server, on its host.
    """
    if exit_code and not dry_run:
        raise InputError("--exit-code needs --dry-run")
    begun = time.monotonic()
    topology, fabric = topology_file.load(file)
    if node is not None:
        done = _host(topology, fabric, file, node, dry_run)
    elif topology.nodes != "lab":
        raise InputError(f"{file} names hosts: give --node NAME, the server that runs on this machine")
    elif dry_run:
        done = _Done(tuple(make_plan(topology, fabric).steps()))
    else:
        done = _lab(topology, fabric, file, as_json)
    seconds = time.monotonic() - begun
    if as_json:
        _print_json(_done_as_json(fabric.name, done, dry_run, seconds))
    else:
        _print_done(fabric.name, done, dry_run, seconds)
    if exit_code and done.steps:
        raise typer.Exit(CHANGES_WAITING)


class _Done(NamedTuple):
    """The changes of a provision, made or planned; for pending and lacking see `HostPlan`."""

    steps: tuple[Change, ...]
    pending: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()


def _host(topology: Topology, fabric: Fabric, file: Path, node: str, dry_run: bool) -> _Done:
    if dry_run:
        plan = hosts.plan_host(topology, fabric, node)
    else:
        command = f"{file} --node {node}"
        with completable(lambda: f"{node} of {fabric.name}: interrupted", command, command):
            plan = hosts.provision_host(topology, fabric, node)
    return _Done(plan.steps, plan.pending, plan.lacking)


def _lab(topology: Topology, fabric: Fabric, file: Path, quiet: bool) -> _Done:
    there = partial(nodes_there, fabric)
    with completable(there, str(file), fabric.name), _progress(quiet) as progress:
        plan = provisioning.provision(topology, fabric, str(file.resolve()), _reporter(progress))
    return _Done(tuple(plan.steps()))


def _progress(quiet: bool) -> Progress:
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)


def _reporter(progress: Progress) -> Callable[[Plan], provisioning.Report]:
    def begin(plan: Plan) -> provisioning.Report:
        task = progress.add_task("", total=plan.work)
        return lambda done: progress.update(task, advance=1, description=done)

    return begin


def _done_as_json(fabric: str, done: _Done, dry_run: bool, seconds: float) -> dict[str, Any]:
    return {
        "fabric": fabric,
        "dry_run": dry_run,
        "changes": plan_view.as_json(done.steps),
        "pending": list(done.pending),
        "lacking": list(done.lacking),
        "seconds": round(seconds, 3),
    }


def _print_done(fabric: str, done: _Done, dry_run: bool, seconds: float) -> None:
    console = _console()
    if dry_run:
        for line in plan_view.lines(done.steps):
            console.print(line, markup=False, soft_wrap=True)
    if done.steps:
        verb = "to change" if dry_run else f"changed in {seconds:.1f} s"
        console.print(plan_view.table(done.steps, f"{fabric}: {len(done.steps)} things {verb}"))
    else:
        console.print(f"{fabric}: nothing to change; kernel and file agree")
    for neighbour in done.pending:
        console.print(f"pending: {neighbour} did not answer ARP; run this again when it is up")
    for sentence in done.lacking:
        console.print(f"lacking: {sentence}", markup=False, soft_wrap=True)


@app.command()
def destroy(
    what: Annotated[
        str | None, typer.Argument(metavar="[FILE|NAME]", help="topology file, or name of a fabric")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="every fabric on this machine")] = False,
    node: Node = None,
    as_json: Json = False,
) -> None:
    """Remove a fabric completely; on a host, restore the earlier settings.

    Uses the state of the kernel and the stored record, so the file may have been edited or deleted. Exit code 1
    if the fabric is not on this machine.
    """
    if (what is None) != everything or (everything and node):
        raise InputError("give a topology file or the name of a fabric, or --all alone")
    names = fabrics.fabrics() if what is None else (fabrics.find_fabric(what),)
    done = [removal.destroy(name, node) for name in names]
    if what is not None and not any(map(removal.is_something, done)):
        raise fabrics.not_here(names[0], what)
    if as_json:
        _print_json([vars(found) for found in done])
        return
    console = _console()
    if not done:
        console.print("no fabric on this machine")
    for found in done:
        console.print(removal.sentence(found))


@app.command()
def inspect(
    file: File,
    node: Node = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="exit code 3 if there is drift")] = False,
    as_json: Json = False,
) -> None:
    """Show every server, port, address, peer and state, and all differences between file and kernel."""
    topology, fabric = topology_file.load(file)
    if node is not None:
        report = inspection.inspect_host(topology, fabric, node)
    else:
        if topology.nodes == "lab" and fabric.name not in fabrics.fabrics():
            raise fabrics.not_here(fabric.name, str(file))
        report = inspection.inspect(topology, fabric)
    if as_json:
        _print_json(inspection.as_json(report))
    else:
        console = _console()
        console.print(inspection.table(report))
        for line in inspection.drift_lines(report):
            console.print(line, markup=False)
    if exit_code and report.drift:
        raise typer.Exit(CHANGES_WAITING)


@app.command()
def ping(file: File, as_json: Json = False) -> None:
    """Ping all pairs of servers over every disjoint path; exit code 1 if a path is broken."""
    _, fabric = topology_file.load(file)
    begun = time.monotonic()
    answers = pinging.ping(fabric)
    seconds = time.monotonic() - begun
    if as_json:
        _print_json(ping_view.as_json(fabric, answers, seconds))
    else:
        console = _console()
        for part in ping_view.parts(fabric, answers, seconds):
            console.print(part)
    if not all(answer.reached for answer in answers):
        raise typer.Exit(1)


@app.command(name="exec")
def execute(
    file: File,
    server: Server,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="command to run")],
) -> None:
    """Run a command on a server of the lab: hipsnet exec FILE s01 -- ip route."""
    _, fabric = topology_file.load(file)
    execution.execute(fabric, server, command)


@app.command()
def shell(file: File, server: Server) -> None:
    """Open an interactive shell ($SHELL) on a server of the lab: hipsnet shell FILE s01."""
    _, fabric = topology_file.load(file)
    execution.shell(fabric, server)


@app.command()
def impair(
    file: File,
    link: Annotated[str, port_argument("LINK", "s00.p1:l1g0.p0, or one end: s00.p1")],
    down: Annotated[bool, typer.Option("--down", help="cut the cable")] = False,
    up: Annotated[bool, typer.Option("--up", help="reconnect it")] = False,
    rate: Annotated[str | None, typer.Option(help="like 100Mbit/s, 1gbit, unlimited")] = None,
    delay: Annotated[str | None, typer.Option(help="one way, like 50us, 2ms")] = None,
    loss: Annotated[str | None, typer.Option(help="share of frames, like 1%, 0.01%")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="remove all faults")] = False,
) -> None:
    """Set faults on a cable, in both directions; its other faults remain."""
    topology, fabric = topology_file.load(file)
    cable = impairment.find_link(fabric, link)
    if reset:
        if down or up or rate or delay or loss:
            raise InputError("--reset removes every fault of the cable: give it alone")
        done = impairment.reset(topology, fabric, cable)
    else:
        fault = impairment.parse_fault(down, up, rate, delay, loss)
        done = impairment.impair(topology, fabric, cable, fault)
    console = _console()
    for change in done:
        console.print(f"{change.node}: {change}", markup=False)
    if not done:
        console.print(f"{cable.name}: nothing to change")


def _console() -> Console:
    """A console for standard output, wide enough for every table if that is not a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _print_json(content: Any) -> None:
    print(json.dumps(content, indent=2))
