# SPDX-License-Identifier: Apache-2.0
"""What servers count of pauses, in the map that endpoints and programs share: theirs, and the watchdogs'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hipsnet.node import programs
from hipsnet.stack.switch import counters
from orchestrator.telemetry.fields import INDEX, PRIORITIES, STORMS
from orchestrator.telemetry.pinned import PinnedMaps
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Reading

_WORD_BYTES = 8
_FIELDS = ("rx_pause_us", "tx_pause_us", "tx_pause_frames")
"""The frames that came in, the program has counted: all of them, also before there was an endpoint."""


class EndpointPauses:
    """Time for which the ports are paused and pause, where an endpoint is, or was; storms where a watchdog is."""

    def __init__(self, ports: WatchedPorts) -> None:
        layout = programs.program_of("forward").maps["pauses"].value
        fields: Mapping[str, Any] = layout.fields or {}
        self._quantum, self._action, self._storms = (
            fields[name][1] // _WORD_BYTES for name in ("quantum_ps", "storm_action", "storms")
        )
        self._names = counters.pause_names()
        self._maps = PinnedMaps(ports, "pauses", layout)

    def read(self, reading: Reading) -> None:
        """Write down what the endpoints count by priority."""
        self._maps.read()
        reading.unreadable.update(self._maps.faults)
        words = self._maps.values[:, 0]
        counted = words[:, : PRIORITIES * len(self._names)]
        looks_after = words[:, self._quantum].astype(bool) | counted.any(axis=1)
        there = np.flatnonzero(self._maps.there & looks_after)
        by_priority = counted[there].reshape(len(there), PRIORITIES, len(self._names))
        for field in _FIELDS:
            reading.store(
                INDEX[field], there, slice(0, PRIORITIES), by_priority[:, :, self._names.index(field)]
            )
        storms = words[:, self._storms : self._storms + PRIORITIES]
        watched = words[:, self._action].astype(bool) | storms.any(axis=1)
        there = np.flatnonzero(self._maps.there & watched)
        reading.store(STORMS, there, slice(0, PRIORITIES), storms[there])

    def close(self) -> None:
        """Close the maps."""
        self._maps.close()
