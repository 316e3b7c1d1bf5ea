# SPDX-License-Identifier: Apache-2.0
"""A fabric's counters, opened for a command."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Topology
from orchestrator.lab import namespaces
from orchestrator.telemetry.monitor import Monitor, Snapshot
from orchestrator.telemetry.ports import WatchedPorts, watch_host, watch_lab
from orchestrator.telemetry.remarks import warning
from orchestrator.telemetry.sources import Sources, open_sources


@contextmanager
def watch(topology: Topology, fabric: Fabric, node: str | None) -> Iterator[tuple[WatchedPorts, Sources]]:
    """The ports of a lab, or with a node of this machine, and what counts there.

    Raises InputError if the lab is not there, or the file is not for what was asked.
    """
    if node is not None:
        ports = watch_host(topology, fabric, node)
    elif topology.nodes != "lab":
        raise InputError("the file names hosts; wanted --node NAME, the server that this machine plays")
    else:
        namespaces.require(fabric.name, list(fabric.nodes)[:1])
        ports = watch_lab(topology, fabric)
    with open_sources(ports) as sources:
        yield ports, sources


def one_interval(ports: WatchedPorts, sources: Sources, seconds: float) -> Snapshot:
    """What happens during the next `seconds`; what cannot be read is said on standard error."""
    monitor = Monitor(ports, sources.read)
    time.sleep(seconds)
    snapshot = monitor.look()
    for event in snapshot.events:
        if event.kind == "unreadable":
            print(warning(event), file=sys.stderr)
    return snapshot
