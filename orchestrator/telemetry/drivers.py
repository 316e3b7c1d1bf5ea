# SPDX-License-Identifier: Apache-2.0
"""What the network cards of a host count themselves, by priority."""

from __future__ import annotations

import socket
from array import array

import numpy as np

from hipsnet.node.ethtool_ioctl import Statistics
from orchestrator.telemetry.driver_names import Meaning, meanings
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Reading


class Drivers:
    """The statistics of the ports' drivers, as far as their names mean something to us."""

    def __init__(self, ports: WatchedPorts) -> None:
        self._ports = ports
        self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._open: dict[int, tuple[Statistics, dict[int, Meaning]]] = {}

    def read(self, reading: Reading) -> None:
        """Write down what the cards count; it goes before what others have counted."""
        for number, port in enumerate(self._ports.ports):
            try:
                if number not in self._open:
                    statistics = Statistics(self._control, port.interface)
                    self._open[number] = statistics, meanings(statistics.driver, statistics.names)
                statistics, found = self._open[number]
                self._tell(reading, number, found, statistics.read())
            except OSError:  # the interface is gone, or its driver counts nothing: asked again next time
                self._open.pop(number, None)

    def close(self) -> None:
        """Close the socket."""
        self._control.close()

    @staticmethod
    def _tell(reading: Reading, number: int, found: dict[int, Meaning], counts: array[int]) -> None:
        values = np.array(counts, np.uint64)
        first = set()
        for place, (field, priority) in found.items():
            if (field, priority) not in first:
                first.add((field, priority))
                reading.store(field, number, priority, 0)
            reading.add(field, number, priority, values[place])
