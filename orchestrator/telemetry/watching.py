# SPDX-License-Identifier: Apache-2.0
"""The counters of a fabric, opened for a command: every source, read one after the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Topology
from orchestrator.lab import namespaces
from orchestrator.telemetry.background import BackgroundProcesses
from orchestrator.telemetry.cables import Peers, sum_up
from orchestrator.telemetry.drivers import Drivers
from orchestrator.telemetry.events import warning
from orchestrator.telemetry.interfaces import Interfaces
from orchestrator.telemetry.monitor import Monitor, Snapshot
from orchestrator.telemetry.ports import WatchedPorts, watch_host, watch_lab
from orchestrator.telemetry.programs import EndpointPauses, ProgramCounters
from orchestrator.telemetry.reading import Reading, Source, empty
from orchestrator.telemetry.soft_switches import SoftSwitches


class Sources:
    """All sources of a fabric's counters. A later source replaces what an earlier one has stored."""

    def __init__(self, ports: WatchedPorts, sources: Sequence[Source]) -> None:
        self.ports = ports
        self._sources = sources

    def read(self) -> Reading:
        """All counters now."""
        reading = empty(time.monotonic(), len(self.ports))
        for source in self._sources:
            source.read(reading)
        sum_up(reading)
        return reading

    def close(self) -> None:
        """Close every source."""
        for source in self._sources:
            source.close()


@contextmanager
def watch(topology: Topology, fabric: Fabric, node: str | None) -> Iterator[tuple[WatchedPorts, Sources]]:
    """The ports of a lab, or with `node` those of this machine, and the sources of their counters.

    Raises InputError if the lab is not provisioned, or if the file names hosts and `node` is missing (or the
    reverse); CapabilityError without the privilege to read the counters.
    """
    if node is not None:
        ports = watch_host(topology, fabric, node)
    elif topology.nodes != "lab":
        raise InputError("the file names hosts: give --node NAME, the server that runs on this machine")
    else:
        namespaces.require(fabric.name, list(fabric.nodes)[:1])
        ports = watch_lab(topology, fabric)
    sources = Sources(ports, _sources(topology, fabric, ports))
    try:
        yield ports, sources
    finally:
        sources.close()


def one_interval(ports: WatchedPorts, sources: Sources, seconds: float) -> Snapshot:
    """Watch for `seconds`; counters that cannot be read are reported on standard error."""
    monitor = Monitor(ports, sources.read)
    time.sleep(seconds)
    snapshot = monitor.poll()
    for event in snapshot.events:
        if event.kind == "unreadable":
            print(warning(event), file=sys.stderr)
    return snapshot


def _sources(topology: Topology, fabric: Fabric, ports: WatchedPorts) -> list[Source]:
    sources: list[Source] = [ProgramCounters(ports), EndpointPauses(ports)]
    # The XDP program at the far end counts frames of a port more precisely than the kernel's own statistics.
    sources += [Peers(ports), Interfaces(ports)]
    if ports.in_lab:
        sources += [SoftSwitches(ports), BackgroundProcesses(topology, fabric)]
    else:
        sources.append(Drivers(ports))
    return [*sources, Peers(ports)]
