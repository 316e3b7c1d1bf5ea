# SPDX-License-Identifier: Apache-2.0
"""Who counts what on the ports of a fabric, opened together and read one after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence

from orchestrator.telemetry.cables import Peers, sum_up
from orchestrator.telemetry.drivers import Drivers
from orchestrator.telemetry.endpoints import EndpointPauses
from orchestrator.telemetry.interfaces import Interfaces
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.programs import ProgramCounters
from orchestrator.telemetry.reading import Reading, Source, empty
from orchestrator.telemetry.soft_switches import SoftSwitches


class Sources:
    """All that counts; open it by `with`. A later source may say better what an earlier one has said."""

    def __init__(self, ports: WatchedPorts, sources: Sequence[Source]) -> None:
        self.ports = ports
        self._sources = sources

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._sources:
            source.close()

    def read(self) -> Reading:
        """All counters now."""
        reading = empty(time.monotonic(), len(self.ports))
        for source in self._sources:
            source.read(reading)
        sum_up(reading)
        return reading


def open_sources(ports: WatchedPorts) -> Sources:
    """Open what counts on these ports. Raises CapabilityError without the right to look."""
    sources: list[Source] = [ProgramCounters(ports), EndpointPauses(ports)]
    # What the far end's program has seen of a port is nearer the truth than the kernel's own statistics.
    sources += [Peers(ports), Interfaces(ports)]
    sources += [SoftSwitches(ports) if ports.in_lab else Drivers(ports), Peers(ports)]
    return Sources(ports, sources)
