# SPDX-License-Identifier: Apache-2.0
"""The counters in the pinned maps of the XDP programs: what they forward, and the pauses of servers' ports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import kernel
from hipsnet.node import programs
from hipsnet.node.forwarding import possible_cpus
from hipsnet.stack.switch import counters
from orchestrator.telemetry.fields import (
    ALL,
    DROPS,
    EACH_PRIORITY,
    INDEX,
    PRIORITIES,
    RX_BYTES,
    RX_FRAMES,
    RX_PAUSE_FRAMES,
    STORMS,
)
from orchestrator.telemetry.pinned import PinnedMaps
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Reading

_PAUSE_FIELDS = ("rx_pause_us", "tx_pause_us", "tx_pause_frames")
"""From the endpoints. Received pause frames are counted by the program, with or without an endpoint."""
_WORD_BYTES = 8
_NO_LOSSES = ("drop_pfc", "drop_mac_control")
"""Frames that end at the MAC they are addressed to."""


class ProgramCounters:
    """Received frames, by port: the map `counters` of every node."""

    def __init__(self, ports: WatchedPorts) -> None:
        layout = programs.program_of("cable").maps["counters"].value
        self._places = _places(layout)
        self._losses = [at for name, at in self._places.items() if _is_loss(name)]
        self._maps = PinnedMaps(ports, "counters", layout, possible_cpus())

    def read(self, reading: Reading) -> None:
        """Store frames, bytes, PFC frames by priority, and losses."""
        self._maps.read()
        reading.unreadable.update(self._maps.faults)
        reading.epoch[:] += self._maps.epoch
        there = np.flatnonzero(self._maps.there)
        total = self._maps.values.sum(axis=1)[there]
        reading.present[there] = True
        pfc = self._places["pfc"]
        reading.store(RX_PAUSE_FRAMES, there, EACH_PRIORITY, total[:, pfc : pfc + PRIORITIES])
        reading.store(RX_FRAMES, there, ALL, total[:, self._places["rx_frames"]])
        reading.store(RX_BYTES, there, ALL, total[:, self._places["rx_bytes"]])
        reading.add(DROPS, there, ALL, total[:, self._losses].sum(axis=1))

    def close(self) -> None:
        """Close the maps."""
        self._maps.close()


def _is_loss(name: str) -> bool:
    return name in kernel.reasons() and name.startswith("drop_") and name not in _NO_LOSSES


def _places(layout: np.dtype[np.void]) -> Mapping[str, int]:
    """The first word of each counter of a port."""
    fields: Mapping[str, Any] = layout.fields or {}
    return {name: entry[1] // _WORD_BYTES for name, entry in fields.items()}


class EndpointPauses:
    """The map `pauses` of every server, which endpoints and programs share.

    It has the time that ports are paused and pause their peers, if there is or was an endpoint, and storms, if
    there is a watchdog.
    """

    def __init__(self, ports: WatchedPorts) -> None:
        layout = programs.program_of("forward").maps["pauses"].value
        fields: Mapping[str, Any] = layout.fields or {}
        self._quantum, self._action, self._storms = (
            fields[name][1] // _WORD_BYTES for name in ("quantum_ps", "storm_action", "storms")
        )
        self._names = counters.pause_names()
        self._maps = PinnedMaps(ports, "pauses", layout)

    def read(self, reading: Reading) -> None:
        """Store pauses and storms by priority."""
        self._maps.read()
        reading.unreadable.update(self._maps.faults)
        words = self._maps.values[:, 0]
        counted = words[:, : PRIORITIES * len(self._names)]
        has_endpoint = words[:, self._quantum].astype(bool) | counted.any(axis=1)
        there = np.flatnonzero(self._maps.there & has_endpoint)
        by_priority = counted[there].reshape(len(there), PRIORITIES, len(self._names))
        for field in _PAUSE_FIELDS:
            reading.store(INDEX[field], there, EACH_PRIORITY, by_priority[:, :, self._names.index(field)])
        storms = words[:, self._storms : self._storms + PRIORITIES]
        has_watchdog = words[:, self._action].astype(bool) | storms.any(axis=1)
        there = np.flatnonzero(self._maps.there & has_watchdog)
        reading.store(STORMS, there, EACH_PRIORITY, storms[there])

    def close(self) -> None:
        """Close the maps."""
        self._maps.close()
