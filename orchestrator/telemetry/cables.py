"""What one end of a cable knows of the other, and priorities of their port."""

from __future__ import annotations

import numpy as np

from orchestrator.telemetry.fields import PRIORITIES, RECEIVED_AND_SENT, WHOLE
from orchestrator.telemetry.ports import NOBODY, WatchedPorts
from orchestrator.telemetry.reading import Reading

_ENDS = np.array(RECEIVED_AND_SENT)
_HERE, _THERE = _ENDS.ravel(), _ENDS[:, ::-1].ravel()


def fill_in_from_peers(reading: Reading, ports: WatchedPorts) -> None:
    """What a port is not known to have sent is what its peer received, and the other way round."""
    ends = np.flatnonzero(ports.peers != NOBODY)
    here, there = np.ix_(_HERE, ends), np.ix_(_THERE, ports.peers[ends])
    missing = ~reading.known[here] & reading.known[there]
    field, end, lane = np.nonzero(missing)
    if len(field):
        at = _HERE[field], ends[end], lane
        reading.values[at] = reading.values[_THERE[field], ports.peers[ends][end], lane]
        reading.known[at] = True


class Peers:
    """The far ends of the cables as a source: of what those before it have told."""

    def __init__(self, ports: WatchedPorts) -> None:
        self._ports = ports

    def read(self, reading: Reading) -> None:
        """Write down what the far ends know."""
        fill_in_from_peers(reading, self._ports)

    def close(self) -> None:
        """Nothing is held open."""


def sum_up(reading: Reading) -> None:
    """What is known by priority only is summed up for the port."""
    lanes = slice(0, PRIORITIES)
    missing = ~reading.known[:, :, WHOLE] & reading.known[:, :, lanes].any(axis=2)
    reading.values[missing, WHOLE] = reading.values[missing][:, lanes].sum(axis=1)
    reading.known[:, :, WHOLE] |= missing
