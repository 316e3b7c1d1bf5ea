# SPDX-License-Identifier: Apache-2.0
"""Detecting PFC deadlocks from counters: queues that wait for one another in a circle.

hipsnet/topology/deadlock.py predicts them from routes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hipsnet.topology.deadlock import Graph, shortest_cycle
from orchestrator.telemetry.events import Event
from orchestrator.telemetry.fields import BUFFER, PRIORITIES
from orchestrator.telemetry.ports import NO_PORT, WatchedPorts
from orchestrator.telemetry.rates import Rates
from orchestrator.telemetry.reading import Flags


@dataclass(frozen=True)
class Deadlock:
    """A circle: in this priority each of the ports waits for the next one to send, the last for the first."""

    priority: int
    queues: tuple[str, ...]

    def __str__(self) -> str:
        return f"priority {self.priority}: {' -> '.join((*self.queues, self.queues[0]))}"


def deadlocks(ports: WatchedPorts, rates: Rates, storms: Flags) -> tuple[Deadlock, ...]:
    """The circles of an interval that have no port in common; `storms` is the result of `events.storms`.

    A port that was paused all the time waits for those queues of its neighbour that were also paused all the time,
    except the queue that leads back to it.
    """
    return tuple(
        found for priority in range(PRIORITIES) for found in _circles(ports, rates, storms, priority)
    )


def changes(before: tuple[Deadlock, ...], after: tuple[Deadlock, ...]) -> Iterator[Event]:
    """Deadlocks that began and ended."""
    for deadlock in after:
        if deadlock not in before:
            yield Event("deadlock", deadlock.queues[0], str(deadlock))
    for deadlock in before:
        if deadlock not in after:
            yield Event("deadlock over", deadlock.queues[0], str(deadlock))


def _circles(ports: WatchedPorts, rates: Rates, storms: Flags, priority: int) -> Iterator[Deadlock]:
    # Only the queue of the priority counts: a port's queueing discipline does not see the frames of an endpoint.
    stuck = storms[:, priority] & ~(rates.amounts[BUFFER, :, priority] == 0)
    graph = _graph(ports, stuck)
    while (found := shortest_cycle(graph)) is not None:
        on_it = set(found)
        names = [f"{node}.{ports.fabric.nodes[node].ports[index].name}" for node, index in found[:-1]]
        first = names.index(min(names))
        yield Deadlock(priority, tuple(names[first:] + names[:first]))
        graph = {one: others - on_it for one, others in graph.items() if one not in on_it}


def _graph(ports: WatchedPorts, stuck: Flags) -> Graph:
    graph: Graph = {}
    for number in np.flatnonzero(stuck).tolist():
        port, back = ports.ports[number], int(ports.peers[number])
        if back == NO_PORT:
            continue
        where = ports.nodes[ports.ports[back].node]
        behind = [other for other in range(where.start, where.stop) if stuck[other] and other != back]
        graph[port.node, port.index] = {(ports.ports[at].node, ports.ports[at].index) for at in behind}
    return graph
