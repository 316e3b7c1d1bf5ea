# SPDX-License-Identifier: Apache-2.0
"""Command `endpoints`: the privileged half of the transport xdp."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from hipsnet.errors import InputError
from hipsnet.node import namespace
from hipsnet.stack.ports.loop import core
from hipsnet.stack.xsk.handover import path_of, serve
from hipsnet.topology.fabric import Server
from orchestrator import topology_file
from orchestrator.commands.arguments import File
from orchestrator.jobs.privileged import ports_of
from orchestrator.lab.namespaces import namespace_name, require

app = typer.Typer()


@app.command()
def endpoints(
    file: File,
    node: Annotated[str, typer.Argument(metavar="NODE", help="the server whose ports to open")],
    everybody: Annotated[
        bool,
        typer.Option(
            "--everybody",
            help="let every user of this machine take the sockets, not only root. A process that holds them can "
            "send any frame on these ports, receive this server's RoCE traffic, and pause its cables",
        ),
    ] = False,
) -> None:
    """Open a server's AF_XDP sockets and hand them to workers that run without root; runs until interrupted.

    One worker at a time holds the sockets, until it closes the connection or ends. hipsnet/stack/README.md
    describes what the sockets allow a worker to do.
    """
    topology, fabric = topology_file.load(file)
    found = fabric.nodes.get(node)
    if not isinstance(found, Server):
        known = ", ".join(server.name for server in fabric.servers[:8])
        raise InputError(f"NODE: {fabric.name} has no server {node!r}; its servers are {known}, ...")
    if topology.nodes == "lab":
        require(fabric.name, [node], str(file))
    ports = ports_of(topology, fabric, found)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    home = namespace_name(fabric.name, node) if topology.nodes == "lab" else None
    with namespace.inside(home):
        serve(core(), path_of(fabric.name, node), ports, 0o666 if everybody else 0o600)
