# SPDX-License-Identifier: Apache-2.0
"""The events of the soft switches' PFC watchdog, read from their counters file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hipsnet.stack.switch import counters

_KINDS: dict[int, Literal["storm", "restored"]] = {1: "storm", 2: "restored"}
_ACTIONS = {1: "drop", 2: "forward", 3: "alert"}


@dataclass(frozen=True)
class SwitchEvent:
    """A storm that was detected, or has ended; EVENT_FIELDS in counters.h describes the fields.

    `port` and `victims` are indices of the switch's ports. Times are nanoseconds of CLOCK_MONOTONIC.
    """

    number: int
    time_ns: int
    began_ns: int
    kind: Literal["storm", "restored"]
    action: str
    switch: str
    port: int
    priority: int
    victims: tuple[int, ...]
    frames: int


def read(path: Path) -> tuple[SwitchEvent, ...]:
    """The latest events in order. Raises ProvisionError, as `counters.read_file` does."""
    file = counters.read_file(path)
    return from_rows(file.events, tuple(file.switches))


def from_rows(rows: np.ndarray[Any, np.dtype[Any]], switches: tuple[str, ...]) -> tuple[SwitchEvent, ...]:
    """The events of a ring in order, without an event that is being written."""
    found = [_event(row, switches) for row in rows if row["number"]]
    return tuple(sorted(found, key=lambda event: event.number))


def _event(row: Any, switches: tuple[str, ...]) -> SwitchEvent:
    bits = int(row["victims"])
    return SwitchEvent(
        number=int(row["number"]),
        time_ns=int(row["time_ns"]),
        began_ns=int(row["began_ns"]),
        kind=_KINDS[int(row["kind"])],
        action=_ACTIONS[int(row["action"])],
        switch=switches[int(row["switch_index"])],
        port=int(row["port"]),
        priority=int(row["priority"]),
        victims=tuple(port for port in range(64) if bits >> port & 1),
        frames=int(row["frames"]),
    )
