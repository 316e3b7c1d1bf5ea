# SPDX-License-Identifier: Apache-2.0
"""What the XDP programs have counted, out of their pinned maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import kernel
from hipsnet.node import programs
from hipsnet.node.forwarding import possible_cpus
from orchestrator.telemetry.fields import ALL, DROPS, PRIORITIES, RX_BYTES, RX_FRAMES, RX_PAUSE_FRAMES
from orchestrator.telemetry.pinned import PinnedMaps
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Reading

_WORD_BYTES = 8
_NO_LOSSES = ("drop_pfc", "drop_mac_control")
"""Frames that end at a MAC because that is whom they are for."""


class ProgramCounters:
    """What came in at the ports with a program."""

    def __init__(self, ports: WatchedPorts) -> None:
        layout = programs.program_of("cable").maps["counters"].value
        self._places = _places(layout)
        self._losses = [at for name, at in self._places.items() if _is_loss(name)]
        self._maps = PinnedMaps(ports, "counters", layout, possible_cpus())

    def read(self, reading: Reading) -> None:
        """Write down frames, bytes, PFC frames by priority, and losses."""
        self._maps.read()
        reading.unreadable.update(self._maps.faults)
        reading.epoch[:] += self._maps.epoch
        there = np.flatnonzero(self._maps.there)
        total = self._maps.values.sum(axis=1)[there]
        reading.present[there] = True
        pfc = self._places["pfc"]
        reading.store(RX_PAUSE_FRAMES, there, slice(0, PRIORITIES), total[:, pfc : pfc + PRIORITIES])
        reading.store(RX_FRAMES, there, ALL, total[:, self._places["rx_frames"]])
        reading.store(RX_BYTES, there, ALL, total[:, self._places["rx_bytes"]])
        reading.add(DROPS, there, ALL, total[:, self._losses].sum(axis=1))

    def close(self) -> None:
        """Close the maps."""
        self._maps.close()


def _is_loss(name: str) -> bool:
    return name in kernel.reasons() and name.startswith("drop_") and name not in _NO_LOSSES


def _places(layout: np.dtype[np.void]) -> Mapping[str, int]:
    """The word at which each counter of a port begins."""
    fields: Mapping[str, Any] = layout.fields or {}
    return {name: entry[1] // _WORD_BYTES for name, entry in fields.items()}
