# SPDX-License-Identifier: Apache-2.0
"""Events for the operator: links, storms, background processes, and counters that reset or cannot be read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from orchestrator.lab.background import BackgroundProcess
from orchestrator.telemetry.fields import (
    ALL,
    BUFFER,
    EACH_PRIORITY,
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
    "link down", "link up", "vanished", "back", "counters reset", "unreadable", "not running", "running again",
]  # fmt: skip
"""A watchdog reports "storm detected" and "storm restored"; "storm" and "storm over" are derived from the counters.
Counters of another version of hipsnet are "unreadable": `port` is then a node. "not running" and "running again"
are about a background process, which `port` names."""
_BAD = ("storm", "storm detected", "deadlock", "link down", "vanished", "unreadable", "not running")


@dataclass(frozen=True)
class Event:
    """Something that happened at a port; `detail` describes it."""

    kind: Kind
    port: str
    detail: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether a fault begins with it."""
        return self.kind in _BAD


def changes_of_links(ports: WatchedPorts, before: Reading, after: Reading) -> Iterator[Event]:
    """Ports that appeared, vanished, changed their carrier, or reset their counters between two readings."""
    stayed = before.present & after.present
    changed = (before.present != after.present) | (before.up != after.up) | (before.epoch != after.epoch)
    reset: list[str] = []
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
            reset.append(port.name)
    if reset:  # one event: a soft switch that restarts resets all its ports
        yield Event("counters reset", reset[0], f"and {len(reset) - 1} more ports" if len(reset) > 1 else "")


def storms(rates: Rates) -> Flags:
    """The PFC storms, shape (ports, priorities): paused all the time, and sending nothing.

    The criterion is that of SONiC's pfcwd. Without a counter of the time, a port is in a storm if it receives pause
    frames and sends nothing while its queue is not empty.
    """
    time = rates.amounts[RX_PAUSE_US, :, EACH_PRIORITY] / 1e6 / rates.seconds
    sent, queued = rates.amounts[TX_FRAMES], rates.amounts[BUFFER]
    by_time = (time >= STORM_SHARE) & ~(sent[:, EACH_PRIORITY] > 0)
    frames = rates.amounts[RX_PAUSE_FRAMES, :, EACH_PRIORITY]
    by_frames = (frames > 0) & (_by_priority(sent) == 0) & (_by_priority(queued) > 0)
    return np.asarray(np.where(np.isnan(time), by_frames, by_time))


def _by_priority(amounts: Amounts) -> Amounts:
    """By priority; the whole port's amount where there is no counter by priority. Shape (ports, priorities)."""
    return np.where(np.isnan(amounts), amounts[:, ALL, None], amounts)[:, :PRIORITIES]


def changes_of_storms(ports: WatchedPorts, before: Flags, after: Flags) -> Iterator[Event]:
    """Storms that began and ended."""
    for number, priority in np.argwhere(before != after).tolist():
        port = ports.ports[number]
        begins = bool(after[number, priority])
        detail = f"priority {priority}: paused by {port.peer_name}" if begins else f"priority {priority}"
        yield Event("storm" if begins else "storm over", port.name, detail)


def changes_of_processes(
    before: Sequence[BackgroundProcess], after: Sequence[BackgroundProcess]
) -> Iterator[Event]:
    """Background processes that ended, and those that run again."""
    were_running = {process.name: process.is_running for process in before}
    for process in after:
        if process.is_running == were_running.get(process.name, True):
            continue
        if process.is_running:
            yield Event("running again", process.name)
        else:
            yield Event("not running", process.name, process.report)


class UnreadableCounters:
    """Reports counters that exist but cannot be read: once, and again only if they were readable in between."""

    def __init__(self) -> None:
        self._reported: frozenset[tuple[str, str]] = frozenset()

    def new(self, reading: Reading) -> Iterator[Event]:
        """The faults that this reading has for the first time; one event for all nodes with the same fault."""
        fresh, self._reported = reading.unreadable - self._reported, frozenset(reading.unreadable)
        by_fault: dict[str, list[str]] = {}
        for node, fault in sorted(fresh):
            by_fault.setdefault(fault, []).append(node)
        for fault, nodes in by_fault.items():
            others = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            yield Event("unreadable", nodes[0] + others, fault)

    def warn(self, reading: Reading) -> None:
        """Report them on standard error."""
        for event in self.new(reading):
            print(warning(event), file=sys.stderr)


def warning(event: Event) -> str:
    """An event as a line for standard error."""
    return f"hipsnet: {event.port}: {event.detail}"
