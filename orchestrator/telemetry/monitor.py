# SPDX-License-Identifier: Apache-2.0
"""Watching a fabric: each look gives the rates since the last one, what happened, and remembers the past."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from orchestrator.lab.background import BackgroundProcess
from orchestrator.telemetry import rates as rate
from orchestrator.telemetry.deadlocks import Deadlock, changes, deadlocks
from orchestrator.telemetry.events import (
    Event,
    UnreadableCounters,
    changes_of_links,
    changes_of_processes,
    changes_of_storms,
    storms,
)
from orchestrator.telemetry.fields import COLUMNS, FIELDS, GAUGES, INDEX, PRIORITIES, STORMS
from orchestrator.telemetry.pauses import Pause, pauses
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.rates import Amounts, Rates
from orchestrator.telemetry.reading import Counts, Flags, Reading
from orchestrator.telemetry.sample import Rows, Sample, priorities, sample
from orchestrator.telemetry.watchdog import WatchdogLog

HISTORY = 120
"""So many intervals are remembered, of large fabrics fewer."""
_HISTORY_BYTES = 1 << 26


@dataclass(frozen=True)
class Snapshot:
    """What was seen by one look; `storms` has shape (ports, priorities)."""

    ports: WatchedPorts
    reading: Reading
    rates: Rates
    storms: Flags
    pauses: tuple[Pause, ...]
    deadlocks: tuple[Deadlock, ...]
    events: tuple[Event, ...]

    @property
    def not_running(self) -> tuple[BackgroundProcess, ...]:
        """The background processes that the lab needs and that do not run."""
        return tuple(process for process in self.reading.processes if not process.is_running)

    def sample(self, port: int, priority: int) -> Sample:
        """The numbers of one line."""
        return sample(self.rates, port, priority)

    def priorities(self) -> Rows:
        """The (port, priority) that are worth a line, shape (lines, 2)."""
        return priorities(self.ports, self.reading)


class Monitor:
    """Looks at a fabric through `read`; the first look is made at once, to have something to compare with."""

    def __init__(self, ports: WatchedPorts, read: Callable[[], Reading]) -> None:
        self._ports = ports
        self._read = read
        self._last = read()
        self._storms: Flags = np.zeros((len(ports), PRIORITIES), bool)
        self._deadlocks: tuple[Deadlock, ...] = ()
        self._watchdog = WatchdogLog(ports.fabric)
        self._unreadable = UnreadableCounters()
        self._processes: Sequence[BackgroundProcess] = ()
        size = len(FIELDS) * len(ports) * COLUMNS * 4
        length = max(min(HISTORY, _HISTORY_BYTES // size), 30)
        # The newest is written over the oldest. All of one look is in one place: much is written, little read.
        self._past = np.full((length, len(FIELDS), len(ports), COLUMNS), np.nan, np.float32)
        self._looks = 0
        speeds = tuple(port.rate_bps for port in ports.ports)
        self._possible: Callable[[int], Counts] = lru_cache(2)(lambda s: rate.possible(s, speeds))

    def look(self) -> Snapshot:
        """Read all counters again."""
        reading = self._read()
        most = self._possible(math.ceil(reading.time_s - self._last.time_s))
        rates = rate.between(self._last, reading, most)
        stormy = storms(rates)
        circles = deadlocks(self._ports, rates, stormy)
        events = (
            *self._unreadable.new(reading),
            *changes_of_processes(self._processes, reading.processes),
            *changes_of_links(self._ports, self._last, reading),
            *changes_of_storms(self._ports, self._storms, stormy),
            *changes(self._deadlocks, circles),
            *(self._watchdog.new() if self._may_have_told(reading) else ()),
        )
        self._past[:, :, reading.epoch != self._last.epoch] = np.nan
        self._last, self._storms, self._deadlocks = reading, stormy, circles
        self._processes = reading.processes
        self._remember(rates)
        who = pauses(self._ports, rates)
        return Snapshot(self._ports, reading, rates, stormy, who, circles, events)

    def past(self, field: str, port: int, priority: int) -> Amounts:
        """A number's last rates (of a gauge, values), the oldest first; NaN where it was not known.

        Of a time in microseconds it is the share of the time in millionths.
        """
        found: Amounts = self.pasts(field, np.array([[port, priority]]), len(self._past))[0]
        return found

    def pasts(self, field: str, rows: Rows, length: int) -> Amounts:
        """The same of several (port, priority) at once, a row for each, the last `length` of them at the most."""
        size = len(self._past)
        slots = np.arange(self._looks - min(length, size), self._looks) % size
        found: Amounts = self._past[slots[None, :], INDEX[field], rows[:, :1], rows[:, 1:]]
        return found

    def _may_have_told(self, reading: Reading) -> bool:
        before, after = self._last.values[STORMS], reading.values[STORMS]
        return self._watchdog.is_open or not np.array_equal(before, after)

    def _remember(self, rates: Rates) -> None:
        slot = self._past[self._looks % len(self._past)]
        np.divide(rates.amounts, rates.seconds, out=slot, casting="same_kind")
        slot[list(GAUGES)] = rates.amounts[list(GAUGES)]
        self._looks += 1
