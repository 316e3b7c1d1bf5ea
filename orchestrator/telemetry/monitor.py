# SPDX-License-Identifier: Apache-2.0
"""Watching a fabric: each poll gives the rates and events since the last one, and extends the history."""

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
from orchestrator.telemetry.fields import FIELDS, GAUGES, INDEX, PRIORITIES, PRIORITY_SLOTS, STORMS
from orchestrator.telemetry.pauses import Pause, pauses
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.rates import Amounts, Rates
from orchestrator.telemetry.reading import Counts, Flags, Reading
from orchestrator.telemetry.sample import Rows, Sample, priorities, sample
from orchestrator.telemetry.watchdog import WatchdogLog

HISTORY = 120
"""The length of the history in intervals; less for large fabrics."""
_HISTORY_BYTES = 1 << 26


@dataclass(frozen=True)
class Snapshot:
    """The result of one poll; `storms` has shape (ports, priorities)."""

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
        """The rates of one line."""
        return sample(self.rates, port, priority)

    def priorities(self) -> Rows:
        """The (port, priority) that get a line, shape (lines, 2)."""
        return priorities(self.ports, self.reading)


class Monitor:
    """Polls a fabric by `read`; the first reading is taken at once, as the start of the first interval."""

    def __init__(self, ports: WatchedPorts, read: Callable[[], Reading]) -> None:
        self._ports = ports
        self._read = read
        self._last = read()
        self._storms: Flags = np.zeros((len(ports), PRIORITIES), bool)
        self._deadlocks: tuple[Deadlock, ...] = ()
        self._watchdog = WatchdogLog(ports.fabric)
        self._unreadable = UnreadableCounters()
        self._processes: Sequence[BackgroundProcess] = ()
        size = len(FIELDS) * len(ports) * PRIORITY_SLOTS * 4
        length = max(min(HISTORY, _HISTORY_BYTES // size), 30)
        # A ring. The values of one poll are contiguous: much is written, little is read.
        self._past = np.full((length, len(FIELDS), len(ports), PRIORITY_SLOTS), np.nan, np.float32)
        self._polls = 0
        speeds = tuple(port.rate_bps for port in ports.ports)
        self._possible: Callable[[int], Counts] = lru_cache(2)(lambda s: rate.possible(s, speeds))

    def poll(self) -> Snapshot:
        """Read all counters."""
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
            *(self._watchdog.new() if self._may_have_events(reading) else ()),
        )
        self._past[:, :, reading.epoch != self._last.epoch] = np.nan
        self._last, self._storms, self._deadlocks = reading, stormy, circles
        self._processes = reading.processes
        self._extend_history(rates)
        who = pauses(self._ports, rates)
        return Snapshot(self._ports, reading, rates, stormy, who, circles, events)

    def past(self, field: str, port: int, priority: int) -> Amounts:
        """The last rates of a counter, or values of a gauge, the oldest first; NaN where it was not known.

        The rate of a time in microseconds is the share of the time in millionths.
        """
        found: Amounts = self.pasts(field, np.array([[port, priority]]), len(self._past))[0]
        return found

    def pasts(self, field: str, rows: Rows, length: int) -> Amounts:
        """The last `length` values for several (port, priority), one row each; see `past`."""
        size = len(self._past)
        slots = np.arange(self._polls - min(length, size), self._polls) % size
        found: Amounts = self._past[slots[None, :], INDEX[field], rows[:, :1], rows[:, 1:]]
        return found

    def _may_have_events(self, reading: Reading) -> bool:
        before, after = self._last.values[STORMS], reading.values[STORMS]
        return self._watchdog.is_open or not np.array_equal(before, after)

    def _extend_history(self, rates: Rates) -> None:
        slot = self._past[self._polls % len(self._past)]
        np.divide(rates.amounts, rates.seconds, out=slot, casting="same_kind")
        slot[list(GAUGES)] = rates.amounts[list(GAUGES)]
        self._polls += 1
