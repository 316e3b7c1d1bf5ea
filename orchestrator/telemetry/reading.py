# SPDX-License-Identifier: Apache-2.0
"""All counters of all ports at one time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from orchestrator.lab.background import BackgroundProcess
from orchestrator.telemetry.fields import FIELDS, PRIORITY_SLOTS

Counts = np.ndarray[tuple[int, int, int], np.dtype[np.uint64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Reading:
    """Arrays of shape (fields, ports, priorities); a value that is not `known` has no counter.

    `present` are the ports that exist, `up` those that have a carrier. `epoch` changes when a counter of the port
    was replaced, so that its counters restart. All of these have shape (ports,). `unreadable` are
    (node, which of its counters exist and cannot be read, and why); `processes` the background processes that
    the lab needs.
    """

    time_s: float
    values: Counts
    known: Flags
    present: Flags
    up: Flags
    epoch: np.ndarray[tuple[int], np.dtype[np.int64]]
    unreadable: set[tuple[str, str]] = field(default_factory=set)
    processes: list[BackgroundProcess] = field(default_factory=list)

    def store(self, field: int, ports: Any, priorities: Any, values: Any) -> None:
        """Store a counter; earlier values are replaced."""
        self.values[field, ports, priorities] = values
        self.known[field, ports, priorities] = True

    def add(self, field: int, ports: Any, priorities: Any, values: Any) -> None:
        """Add to the values that other sources have stored."""
        self.values[field, ports, priorities] += np.asarray(values).astype(np.uint64)
        self.known[field, ports, priorities] = True


class Source(Protocol):
    """A source of counters; opened once, read often, closed in the end."""

    def read(self, reading: Reading) -> None:
        """Store the present counters. Nodes that do not exist are left out."""

    def close(self) -> None:
        """Close everything that is open."""


def empty(time_s: float, ports: int) -> Reading:
    """A reading without any value."""
    shape = (len(FIELDS), ports, PRIORITY_SLOTS)
    return Reading(
        time_s,
        np.zeros(shape, np.uint64),
        np.zeros(shape, bool),
        np.zeros(ports, bool),
        np.zeros(ports, bool),
        np.zeros(ports, np.int64),
    )
