# SPDX-License-Identifier: Apache-2.0
"""What an operator has to be told: links that come and go, storms that begin and end, counters that begin anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from orchestrator.telemetry.fields import (
    ALL,
    BUFFER,
    PRIORITIES,
    RX_PAUSE_FRAMES,
    RX_PAUSE_US,
    TX_FRAMES,
)
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.rates import Amounts, Rates
from orchestrator.telemetry.reading import Flags, Reading

STORM_SHARE = 0.99
Kind = Literal[
    "storm", "storm over", "storm detected", "storm restored", "deadlock", "deadlock over",
    "link down", "link up", "vanished", "back", "counters reset", "unreadable",
]  # fmt: skip
"""Detected and restored are what a watchdog says; without one, looking from outside has to do. Counters that
are of another version of hipsnet are unreadable; `port` is then a node."""


@dataclass(frozen=True)
class Event:
    """Something that happened at a port; `detail` says more in words."""

    kind: Kind
    port: str
    detail: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether it is the beginning of something, not its end."""
        return self.kind in ("storm", "storm detected", "deadlock", "link down", "vanished", "unreadable")


def changes_of_links(ports: WatchedPorts, before: Reading, after: Reading) -> Iterator[Event]:
    """What became of the ports between two readings."""
    stayed = before.present & after.present
    changed = (before.present != after.present) | (before.up != after.up) | (before.epoch != after.epoch)
    for number in np.flatnonzero(changed).tolist():
        port = ports.ports[number]
        if not stayed[number]:
            if after.present[number]:
                yield Event("back", port.name, f"towards {port.peer_name}")
            elif before.present[number]:
                yield Event("vanished", port.name, f"towards {port.peer_name}")
        elif before.up[number] != after.up[number]:
            yield Event(
                "link up" if after.up[number] else "link down", port.name, f"towards {port.peer_name}"
            )
        elif before.epoch[number] != after.epoch[number]:
            yield Event("counters reset", port.name)


def storms(rates: Rates) -> Flags:
    """Which port and priority is in a storm, shape (ports, priorities): stopped all the time, sending nothing.

    As SONiC's pfcwd has it. Where nobody counts the time, a port that gets pause frames and sends nothing,
    though something waits, has to do.
    """
    priorities = slice(0, PRIORITIES)
    time = rates.amounts[RX_PAUSE_US, :, priorities] / 1e6 / rates.seconds
    sent, waits = rates.amounts[TX_FRAMES], rates.amounts[BUFFER]
    by_time = (time >= STORM_SHARE) & ~(sent[:, priorities] > 0)
    frames = rates.amounts[RX_PAUSE_FRAMES, :, priorities]
    by_frames = (frames > 0) & (_of_lanes(sent) == 0) & (_of_lanes(waits) > 0)
    return np.asarray(np.where(np.isnan(time), by_frames, by_time))


def _of_lanes(amounts: Amounts) -> Amounts:
    """Of the priorities; of the whole port where nobody tells them apart. Shape (ports, priorities)."""
    return np.where(np.isnan(amounts), amounts[:, ALL, None], amounts)[:, :PRIORITIES]


def changes_of_storms(ports: WatchedPorts, before: Flags, after: Flags) -> Iterator[Event]:
    """Storms that began and ended."""
    for number, priority in np.argwhere(before != after).tolist():
        port = ports.ports[number]
        begins = bool(after[number, priority])
        detail = f"priority {priority}: stopped by {port.peer_name}" if begins else f"priority {priority}"
        yield Event("storm" if begins else "storm over", port.name, detail)
