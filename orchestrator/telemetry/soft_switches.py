# SPDX-License-Identifier: Apache-2.0
"""The counters of a lab's soft switches, by priority, from the file into which they count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hipsnet.errors import ProvisionError
from hipsnet.stack.switch import counters
from hipsnet.stack.switch.counters import SwitchCounters
from orchestrator.lab import soft_switch
from orchestrator.telemetry.fields import ALL, BUFFER, BUFFER_SIZE, DROPS, EACH_PRIORITY, INDEX
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Reading

_PAUSE = ("rx_pause_frames", "tx_pause_frames", "rx_pause_us", "tx_pause_us")
_BY_PRIORITY = ("rx_frames", "tx_frames", "rx_bytes", "tx_bytes", "ecn_marks", "storms")
_NO_LOSSES = ("drop_control", "drop_same_port")
"""Frames that no bridge forwards either."""


class SoftSwitches:
    """Every port of every soft switch; nothing without soft switches."""

    def __init__(self, ports: WatchedPorts) -> None:
        self._nodes = ports.nodes
        self._path = soft_switch.counters_path(ports.fabric.name)

    def read(self, reading: Reading) -> None:
        """Store pauses, traffic, marks, losses and queues, by priority."""
        try:
            inode = self._path.stat().st_ino  # of another file after each start of the soft switch
            found = counters.read(self._path)
        except FileNotFoundError:  # there is no soft switch, or not yet
            return
        except ProvisionError as error:
            if self._path.exists():
                reading.unreadable.add(("soft switches", str(error)))
            return
        there = [
            (where, switch)
            for name, switch in found.items()
            if (where := self._nodes.get(name)) is not None and len(switch.ports) == where.stop - where.start
        ]
        if there:
            _store(reading, there, inode)

    def close(self) -> None:
        """Nothing is open."""


def _store(reading: Reading, there: Sequence[tuple[slice, SwitchCounters]], epoch: int) -> None:
    """Store all switches at once: the time depends on the number of steps, not on that of ports."""
    where = np.concatenate([np.arange(place.start, place.stop) for place, _ in there])
    layout = there[0][1].ports.dtype
    ports = np.frombuffer(b"".join(switch.ports.tobytes() for _, switch in there), layout)
    sizes = np.concatenate([np.full(len(switch.ports), switch.totals["shared_size"]) for _, switch in there])
    reading.epoch[where] += epoch
    priority = ports["priority"]
    for name in _PAUSE:
        reading.store(INDEX[name], where, EACH_PRIORITY, ports["pause"][name])
    for name in _BY_PRIORITY:
        reading.store(INDEX[name], where, EACH_PRIORITY, priority[name])
    lost = sum(priority[name] for name in priority.dtype.names or () if name.startswith("drop_"))
    reading.store(DROPS, where, EACH_PRIORITY, lost)
    reading.add(DROPS, where, ALL, np.sum(lost, axis=1) + _lost_without_priority(ports))
    reading.store(BUFFER, where, EACH_PRIORITY, priority["egress_bytes"])
    reading.store(BUFFER, where, ALL, priority["egress_bytes"].sum(axis=1))
    reading.store(BUFFER_SIZE, where, slice(None), sizes[:, None])


def _lost_without_priority(
    ports: np.ndarray[tuple[int], np.dtype[np.void]],
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    names = [name for name in ports.dtype.names or () if name.startswith("drop_") and name not in _NO_LOSSES]
    return np.asarray(sum(ports[name] for name in names), np.uint64)
