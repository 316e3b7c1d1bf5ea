# SPDX-License-Identifier: Apache-2.0
"""Deriving counters: of a port from the other end of its cable, of a whole port from its priorities."""

from __future__ import annotations

import numpy as np

from orchestrator.telemetry.fields import ALL, EACH_PRIORITY, RECEIVED_AND_SENT
from orchestrator.telemetry.ports import NO_PORT, WatchedPorts
from orchestrator.telemetry.reading import Flags, Reading

_ENDS = np.array(RECEIVED_AND_SENT)
_HERE, _THERE = _ENDS.ravel(), _ENDS[:, ::-1].ravel()


class Peers:
    """The other ends of the cables as a source, from the values that earlier sources have stored.

    Where a port has no counter of sent frames, those that its peer received are taken, and the reverse. The places
    are computed once and kept as long as the same values are known.
    """

    def __init__(self, ports: WatchedPorts) -> None:
        self._ports = ports
        self._known: Flags = np.zeros(0, bool)
        self._to = self._from = np.zeros(0, np.int64)

    def read(self, reading: Reading) -> None:
        """Fill the gaps from the other ends."""
        if not np.array_equal(self._known, reading.known):
            self._known = reading.known.copy()
            self._find_gaps()
        values, known = reading.values.reshape(-1), reading.known.reshape(-1)
        values[self._to] = values[self._from]
        known[self._to] = True

    def close(self) -> None:
        """Nothing is open."""

    def _find_gaps(self) -> None:
        ends = np.flatnonzero(self._ports.peers != NO_PORT)
        peers = self._ports.peers[ends]
        known = self._known
        field, end, priority = np.nonzero(~known[np.ix_(_HERE, ends)] & known[np.ix_(_THERE, peers)])
        shape = known.shape
        self._to = np.ravel_multi_index((_HERE[field], ends[end], priority), shape)
        self._from = np.ravel_multi_index((_THERE[field], peers[end], priority), shape)


def sum_up(reading: Reading) -> None:
    """Store the sum of the priorities for a port without a counter of the whole port."""
    missing = ~reading.known[:, :, ALL] & reading.known[:, :, EACH_PRIORITY].any(axis=2)
    reading.values[missing, ALL] = reading.values[missing][:, EACH_PRIORITY].sum(axis=1)
    reading.known[:, :, ALL] |= missing
