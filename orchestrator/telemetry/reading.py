# SPDX-License-Identifier: Apache-2.0
"""All counters of all ports at one time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from orchestrator.lab.background import BackgroundProcess
from orchestrator.telemetry.fields import COLUMNS, FIELDS

Counts = np.ndarray[tuple[int, int, int], np.dtype[np.uint64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Reading:
    """Arrays of shape (fields, ports, priorities); what is not `known` is not counted by anybody.

    `present` are the ports that are there, `up` those that have a carrier. `epoch` is another number when
    whatever counts a port was replaced, and so began anew. All of these have shape (ports,). `unreadable` are
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
    """Something that counts; opened once, read often, closed in the end."""

    def read(self, reading: Reading) -> None:
        """Write down what is counted now. What is gone is left out, and found again when it is back."""

    def close(self) -> None:
        """Let go of everything that is held open."""


def empty(time_s: float, ports: int) -> Reading:
    """A reading in which nothing is known yet."""
    shape = (len(FIELDS), ports, COLUMNS)
    return Reading(
        time_s,
        np.zeros(shape, np.uint64),
        np.zeros(shape, bool),
        np.zeros(ports, bool),
        np.zeros(ports, bool),
        np.zeros(ports, np.int64),
    )
