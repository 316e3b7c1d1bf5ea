"""What the userspace endpoints of servers count of pauses, in the map that they share with the programs."""

from __future__ import annotations

import numpy as np

from hipsnet.node import programs
from hipsnet.stack import counters
from orchestrator.telemetry.fields import INDEX, PRIORITIES
from orchestrator.telemetry.pinned import PinnedMaps
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Reading

_WORD_BYTES = 8
_FIELDS = ("rx_pause_us", "tx_pause_us", "tx_pause_frames")
"""The frames that came in, the program has counted: all of them, also before there was an endpoint."""


class EndpointPauses:
    """Time for which the ports are paused and pause; known of ports that have, or had, an endpoint."""

    def __init__(self, ports: WatchedPorts) -> None:
        layout = programs.program_of("forward").maps["pauses"].value
        self._quantum = layout.fields["quantum_ps"][1] // _WORD_BYTES  # type: ignore[index]
        self._names = counters.pause_names()
        self._maps = PinnedMaps(ports, "pauses", layout)

    def read(self, reading: Reading) -> None:
        """Write down what the endpoints count by priority."""
        self._maps.read()
        words = self._maps.values[:, 0]
        counted = words[:, : PRIORITIES * len(self._names)]
        looks_after = words[:, self._quantum].astype(bool) | counted.any(axis=1)
        there = np.flatnonzero(self._maps.there & looks_after)
        by_priority = counted[there].reshape(len(there), PRIORITIES, len(self._names))
        for field in _FIELDS:
            reading.tell(
                INDEX[field], there, slice(0, PRIORITIES), by_priority[:, :, self._names.index(field)]
            )

    def close(self) -> None:
        """Close the maps."""
        self._maps.close()
