# SPDX-License-Identifier: Apache-2.0
"""From pause counters to pairs of pausing and paused ports, and to the nodes at which the pauses begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from orchestrator.telemetry.fields import (
    BUFFER,
    EACH_PRIORITY,
    RX_PAUSE_FRAMES,
    RX_PAUSE_US,
    TX_PAUSE_FRAMES,
    TX_PAUSE_US,
)
from orchestrator.telemetry.ports import NO_PORT, WatchedPorts
from orchestrator.telemetry.rates import Amounts, Rates, known

Stoppers = Mapping[tuple[str, int], set[str]]
"""The nodes that pause a node in a priority."""


@dataclass(frozen=True)
class Pause:
    """A port pauses its peer in a priority: `by` is the culprit's port, `of` the victim's.

    `share` is the share of time, None without a counter of it. `roots` are the nodes at which the chain of pauses
    begins: they pause others and are not paused; empty if the chain is a circle. `queues` are the ports of the
    roots with the longest queue, at most one for each root: the cause of the pauses.
    """

    by: str
    of: str
    priority: int
    frames_per_s: float
    share: float | None
    roots: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    @property
    def beginning(self) -> str:
        """The roots and their longest queues, in words."""
        if not self.roots:
            return "a circle"
        full = {port.rpartition(".")[0]: port for port in self.queues}
        return ", ".join(f"{full[node]} queue" if node in full else node for node in self.roots)

    @property
    def culprit(self) -> str:
        """The node that pauses."""
        return self.by.rpartition(".")[0]

    @property
    def victim(self) -> str:
        """The node that is paused."""
        return self.of.rpartition(".")[0]


def pauses(ports: WatchedPorts, rates: Rates) -> tuple[Pause, ...]:
    """All pauses of an interval, the longest (then the most frames) first."""
    found = [*_seen(ports, rates, by_victims=True), *_seen(ports, rates, by_victims=False)]
    stoppers = stoppers_of((pause.culprit, pause.victim, pause.priority) for pause in found)

    @cache
    def beginning(culprit: str, priority: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        nodes = roots(stoppers, culprit, priority)
        full = (fullest(ports, rates, node, priority) for node in nodes)
        return nodes, tuple(port for port in full if port is not None)

    rooted = []
    for pause in found:
        nodes, queues = beginning(pause.culprit, pause.priority)
        rooted.append(replace(pause, roots=nodes, queues=queues))
    return tuple(sorted(rooted, key=lambda pause: (-(pause.share or 0), -pause.frames_per_s, pause.by)))


def stoppers_of(edges: Iterable[tuple[str, str, int]]) -> Stoppers:
    """From (culprit, victim, priority): the nodes that pause each victim."""
    found: dict[tuple[str, int], set[str]] = {}
    for by, of, priority in edges:
        found.setdefault((of, priority), set()).add(by)
    return found


def roots(stoppers: Stoppers, culprit: str, priority: int) -> tuple[str, ...]:
    """The nodes at which the pauses by `culprit` begin, found from victims back to their culprits; sorted."""
    seen, waiting, found = {culprit}, [culprit], set()
    while waiting:
        node = waiting.pop()
        behind = stoppers.get((node, priority), set())
        if not behind:
            found.add(node)
        waiting += behind - seen
        seen |= behind
    return tuple(sorted(found))


def fullest(ports: WatchedPorts, rates: Rates, node: str, priority: int) -> str | None:
    """The port of a node with the longest queue of a priority; None if all queues are empty or unknown."""
    where = ports.nodes.get(node)
    if where is None:
        return None
    queued = known(rates.amounts[BUFFER, where, priority])
    port = int(queued.argmax())
    return ports.ports[where][port].name if queued[port] > 0 else None


def _seen(ports: WatchedPorts, rates: Rates, by_victims: bool) -> list[Pause]:
    """From the victims' counters; or from the culprits' if the victim is not watched, as from host to switch."""
    frames, time = (RX_PAUSE_FRAMES, RX_PAUSE_US) if by_victims else (TX_PAUSE_FRAMES, TX_PAUSE_US)
    found = []
    for number, priority in _active(rates.amounts, frames, time):
        port = ports.ports[number]
        if by_victims:
            found.append(_pause(rates, port.peer_name, port.name, number, priority, frames, time))
        elif ports.peers[number] == NO_PORT:
            found.append(_pause(rates, port.name, port.peer_name, number, priority, frames, time))
    return found


def _active(amounts: Amounts, frames: int, time: int) -> list[tuple[int, int]]:
    return [
        (int(port), int(priority))
        for port, priority in np.argwhere(
            (amounts[frames, :, EACH_PRIORITY] > 0) | (amounts[time, :, EACH_PRIORITY] > 0)
        )
    ]


def _pause(rates: Rates, by: str, of: str, port: int, priority: int, frames: int, time: int) -> Pause:
    count, us = rates.amounts[frames, port, priority], rates.amounts[time, port, priority]
    return Pause(
        by=by,
        of=of,
        priority=priority,
        frames_per_s=0.0 if np.isnan(count) else float(count) / rates.seconds,
        share=None if np.isnan(us) else min(float(us) / 1e6 / rates.seconds, 1.0),
    )
