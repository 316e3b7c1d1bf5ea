# SPDX-License-Identifier: Apache-2.0
"""Command `exporter`: the counters of a fabric for Prometheus."""

from __future__ import annotations

import signal
from threading import Event
from typing import Annotated

import typer

from hipsnet.errors import InputError
from orchestrator import topology_file
from orchestrator.commands.arguments import File, Node

app = typer.Typer()


@app.command()
def exporter(
    file: File,
    node: Node = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="TCP port to listen on; 0: any free port")
    ] = 9472,
    address: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
) -> None:
    """Export every counter of every port and priority to Prometheus, until interrupted."""
    ended = Event()
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda *_: ended.set())
    from prometheus_client import CollectorRegistry, start_http_server  # takes long to import

    from orchestrator.exporter import FabricCollector
    from orchestrator.provision.drift import Drift
    from orchestrator.telemetry import watching

    topology, fabric = topology_file.load(file)
    with watching.watch(topology, fabric, node) as (ports, sources):
        drift = Drift(topology, fabric, node)
        registry = CollectorRegistry()
        registry.register(FabricCollector(ports, sources.read, drift.found))
        try:
            server, thread = start_http_server(port, address, registry)
        except OSError as error:
            raise InputError(f"cannot listen on {address}:{port}: {error.strerror}") from None
        typer.echo(f"{fabric.name}: http://{address}:{server.server_port}/metrics")
        try:
            drift.watch(ended)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
