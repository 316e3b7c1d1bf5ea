# SPDX-License-Identifier: Apache-2.0
"""Check with one poll for each reading whether the soft switch and the delay line of a lab are running."""

from __future__ import annotations

import os
import select
import time

from hipsnet.topology import Fabric, Topology
from orchestrator.lab import background
from orchestrator.lab.background import BackgroundProcess
from orchestrator.telemetry.reading import Reading

_SEARCH_EVERY_S = 60.0  # while all run: an impairment may need a delay line meanwhile; 20 ms for 64 servers
_RETRY_EVERY_S = 0.5  # while a process is missing


class BackgroundProcesses:
    """The processes that the lab needs. /proc is searched if one ends or is missing, and once a minute."""

    def __init__(self, topology: Topology, fabric: Fabric) -> None:
        self._topology, self._fabric = topology, fabric
        self._found: tuple[BackgroundProcess, ...] = ()
        self._handles: list[int] = []
        self._poll = select.poll()
        self._searched_s = -_SEARCH_EVERY_S

    def read(self, reading: Reading) -> None:
        """Store the processes, running or not."""
        every_s = _SEARCH_EVERY_S if all(process.is_running for process in self._found) else _RETRY_EVERY_S
        if self._poll.poll(0) or reading.time_s - self._searched_s >= every_s:
            self._search()
        reading.processes.extend(self._found)

    def close(self) -> None:
        """Close the handles of the processes."""
        for handle in self._handles:
            self._poll.unregister(handle)
            os.close(handle)
        self._handles = []

    def _search(self) -> None:
        self.close()
        self._searched_s = time.monotonic()
        self._found = background.needed(self._topology, self._fabric)
        for process in self._found:
            if process.pid is not None:
                try:
                    handle = os.pidfd_open(process.pid)
                except ProcessLookupError:  # it ended meanwhile: search again with the next reading
                    self._searched_s = -_SEARCH_EVERY_S
                    continue
                self._handles.append(handle)
                self._poll.register(handle, select.POLLIN)
