# SPDX-License-Identifier: Apache-2.0
"""What one end of a cable knows of the other, and priorities of their port."""

from __future__ import annotations

import numpy as np

from orchestrator.telemetry.fields import ALL, PRIORITIES, RECEIVED_AND_SENT
from orchestrator.telemetry.ports import NOBODY, WatchedPorts
from orchestrator.telemetry.reading import Flags, Reading

_ENDS = np.array(RECEIVED_AND_SENT)
_HERE, _THERE = _ENDS.ravel(), _ENDS[:, ::-1].ravel()


class Peers:
    """The far ends of the cables as a source: of what those before it have told.

    What a port is not known to have sent is what its peer received, and the other way round. Where that is so, is
    found out once: mostly the same is known as the last time.
    """

    def __init__(self, ports: WatchedPorts) -> None:
        self._ports = ports
        self._known: Flags = np.zeros(0, bool)
        self._to = self._from = np.zeros(0, np.int64)

    def read(self, reading: Reading) -> None:
        """Write down what the far ends know."""
        if not np.array_equal(self._known, reading.known):
            self._known = reading.known.copy()
            self._find_gaps()
        values, known = reading.values.reshape(-1), reading.known.reshape(-1)
        values[self._to] = values[self._from]
        known[self._to] = True

    def close(self) -> None:
        """Nothing is held open."""

    def _find_gaps(self) -> None:
        ends = np.flatnonzero(self._ports.peers != NOBODY)
        peers = self._ports.peers[ends]
        known = self._known
        field, end, priority = np.nonzero(~known[np.ix_(_HERE, ends)] & known[np.ix_(_THERE, peers)])
        shape = known.shape
        self._to = np.ravel_multi_index((_HERE[field], ends[end], priority), shape)
        self._from = np.ravel_multi_index((_THERE[field], peers[end], priority), shape)


def sum_up(reading: Reading) -> None:
    """What is known by priority only is summed up for the port."""
    priorities = slice(0, PRIORITIES)
    missing = ~reading.known[:, :, ALL] & reading.known[:, :, priorities].any(axis=2)
    reading.values[missing, ALL] = reading.values[missing][:, priorities].sum(axis=1)
    reading.known[:, :, ALL] |= missing
