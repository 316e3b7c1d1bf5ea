# SPDX-License-Identifier: Apache-2.0
"""Which nodes need not be asked now: what the kernel counts can have changed only where frames have moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from orchestrator.telemetry.fields import ALL, RX_FRAMES, TX_FRAMES
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Flags, Reading

_ASK_EVERY = 8
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Quiet:
    """Frames are known already, from the programs.

    Where nobody counts, something waits, or nobody has been asked for some looks (a dead port loses what never
    moved), the kernel is asked.
    """

    def __init__(self, ports: WatchedPorts) -> None:
        lengths = [at.stop - at.start for at in ports.nodes.values()]
        self._of_node = np.repeat(np.arange(len(lengths)), lengths)
        self._moved: Numbers = np.full(len(lengths), -1, np.int64)
        self._waits = np.zeros(len(ports), bool)
        self._looks = 0

    def nodes(self, reading: Reading) -> Flags:
        """By the number of the node."""
        count = len(self._moved)
        frames = reading.values[RX_FRAMES, :, ALL] + reading.values[TX_FRAMES, :, ALL]
        unknown = ~(reading.known[RX_FRAMES, :, ALL] & reading.known[TX_FRAMES, :, ALL])
        moved = np.bincount(self._of_node, frames, count).astype(np.int64)
        busy = np.bincount(self._of_node, unknown | self._waits, count) > 0
        in_turn = np.arange(count) % _ASK_EVERY == self._looks % _ASK_EVERY
        quiet = (moved == self._moved) & ~busy & ~in_turn
        self._moved, self._looks = moved, self._looks + 1
        return np.asarray(quiet)

    def note(self, ports: Numbers, backlog: np.ndarray[Any, np.dtype[np.uint32]]) -> None:
        """So many bytes wait at these ports."""
        self._waits[ports] = backlog > 0

    def forget(self, node: int) -> None:
        """It has to be asked next time."""
        self._moved[node] = -1
