# SPDX-License-Identifier: Apache-2.0
"""Command `list`: the fabrics of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hipsnet.errors import InputError, ProvisionError
from orchestrator import topology_file
from orchestrator.commands.arguments import Json
from orchestrator.jobs.registry import Job, running_jobs
from orchestrator.lab import background, fabrics
from orchestrator.lab.fabrics import Presence
from orchestrator.provision import hosts

app = typer.Typer()
_STYLES = {"complete": "green", "host": "green", "incomplete": "yellow", "foreign": "red"}


@dataclass(frozen=True)
class _Listed:
    """A fabric of this machine.

    `shape` is like "BCube(3,2)", empty if its topology file cannot be read. `problem` says which of its records is
    not valid, and is empty if all are.
    """

    found: Presence
    shape: str
    servers: int | None
    hosts: tuple[str, ...]
    jobs: tuple[Job, ...]
    processes: tuple[background.BackgroundProcess, ...]
    problem: str


@app.command(name="list")
def list_fabrics(as_json: Json = False) -> None:
    """List the fabrics on this machine: shape, state, running jobs and problems.

    States: complete; incomplete (nodes or the record are missing); foreign (a namespace with a node's name was not
    made by hipsnet); host (this machine hosts servers of a fabric of real machines).
    """
    listed = [_listed(name) for name in fabrics.fabrics()]
    if as_json:
        print(json.dumps([_as_data(fabric) for fabric in listed], indent=2))
        return
    console = Console(highlight=False)
    if not listed:
        console.print("no fabric on this machine")
        return
    console.print(_table(listed))
    for line in (line for fabric in listed for line in _remarks(fabric)):
        console.print(line, markup=False, soft_wrap=True)


def _listed(name: str) -> _Listed:
    found = fabrics.presence(name)
    shape, servers = "", None
    processes: tuple[background.BackgroundProcess, ...] = ()
    if found.file is not None:
        try:
            topology, fabric = topology_file.load(Path(found.file))
            if fabric.name == name:
                shape = fabric.shape.title
                servers, processes = len(fabric.servers), background.needed(topology, fabric)
        except InputError:
            pass  # edited or removed since: list the kernel's state nevertheless
    problem = ""
    remembered: tuple[str, ...] = ()
    try:
        remembered = hosts.remembered(name)
    except ProvisionError as error:
        problem = str(error)  # of this fabric only
    return _Listed(found, shape, servers, remembered, running_jobs(name), processes, problem)


def _table(listed: list[_Listed]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("fabric", "shape", "state", "nodes", "jobs", "file"):
        table.add_column(name, no_wrap=name != "file", overflow="fold")
    for fabric in listed:
        found = fabric.found
        count = len(found.present)
        expected = count + len(found.missing) + len(found.foreign)
        nodes = (
            ", ".join(fabric.hosts)
            if not expected
            else str(count)
            if count == expected
            else f"{count} of {expected}"
        )
        state = Text(found.state, _STYLES[found.state])
        table.add_row(found.name, fabric.shape or "?", state, nodes, str(len(fabric.jobs)), found.file or "?")
    return table


def _remarks(fabric: _Listed) -> Iterator[str]:
    name, found = fabric.found.name, fabric.found
    if fabric.problem:
        yield f"{name}: {fabric.problem}"
    for job in fabric.jobs:
        yield f"{name}: job {job.pid} of {job.user} since {job.since}: {job.command}"
    for process in fabric.processes:
        if not process.is_running:
            yield process.report
    if found.foreign:
        yield f"{name}: not made by hipsnet, left unchanged: {', '.join(found.foreign)}"
    if found.file is None and found.present:
        yield f"{name}: its record is lost; `hipsnet provision FILE` writes it again"
    if found.missing:
        shown = ", ".join(found.missing[:4]) + (", ..." if len(found.missing) > 4 else "")
        command = background.restart_command(name)
        yield f"{name}: missing: {shown}; `{command}` completes it, `hipsnet destroy {name}` removes it"


def _as_data(fabric: _Listed) -> dict[str, Any]:
    found = fabric.found
    return {
        "name": found.name,
        "shape": fabric.shape or None,
        "servers": fabric.servers,
        "state": found.state,
        "file": found.file,
        "nodes": {"present": found.present, "missing": found.missing, "foreign": found.foreign},
        "hosts": fabric.hosts,
        "jobs": [vars(job) for job in fabric.jobs],
        "processes": [process.as_data() for process in fabric.processes],
        "problem": fabric.problem or None,
    }
