# SPDX-License-Identifier: Apache-2.0
"""The events of the watchdogs of a lab: PFC storms at soft switches and servers, with the names of ports."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from hipsnet.errors import ProvisionError
from hipsnet.node import storms
from hipsnet.node.storms import Storm
from hipsnet.stack.switch import events
from hipsnet.stack.switch.events import SwitchEvent
from hipsnet.topology import Fabric
from hipsnet.topology.fabric import Port
from orchestrator.lab import soft_switch
from orchestrator.telemetry.events import Event


@dataclass(frozen=True)
class WatchdogEvent:
    """A storm that was detected at `port`, or that ended there.

    `culprit` is the other end of its cable, which pauses the port; `victims` are the ports of the same node through
    which the waiting frames came, `senders` the other ends of their cables. `frames` is the number of waiting
    frames, or of lost frames when the storm ended. `seconds` is the time from the first pause to the detection, or
    from there to the end. `number` counts the events of all soft switches; on a server, the storms of the port and
    priority, of which the last is known.
    """

    number: int
    time_ns: int
    time: datetime
    kind: Literal["storm", "restored"]
    action: str
    port: str
    priority: int
    culprit: str
    victims: tuple[str, ...]
    senders: tuple[str, ...]
    frames: int
    seconds: float


def read_events(fabric: Fabric) -> tuple[WatchdogEvent, ...]:
    """The last events, in order of time; none without a watchdog."""
    found = [*_of_switches(fabric), *_of_servers(fabric)]
    return tuple(sorted(found, key=lambda event: event.time_ns))


class WatchdogLog:
    """The events from now on. `new` reads every node: call it only if there may be events."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._update(read_events(fabric))

    def new(self) -> tuple[Event, ...]:
        """The events since the last call."""
        known = self._known
        found = read_events(self._fabric)
        self._update(found)
        return tuple(as_event(event) for event in found if _key(event) not in known)

    def _update(self, found: Sequence[WatchdogEvent]) -> None:
        self._known = set(map(_key, found))
        last = {(event.port, event.priority): event.kind for event in found}
        self.is_open = "storm" in last.values()
        """Whether a storm has not ended."""


def as_event(event: WatchdogEvent) -> Event:
    """The event as a line of the log."""
    if event.kind == "restored":
        detail = f"priority {event.priority}: after {event.seconds:.1f} s, {event.frames} frames dropped"
        return Event("storm restored", event.port, detail)
    detail = f"priority {event.priority}: {event.action}; paused by {event.culprit}"
    return Event(
        "storm detected", event.port, f"{detail}, holds up {', '.join(event.senders) or 'no sender'}"
    )


def _key(event: WatchdogEvent) -> tuple[object, ...]:
    """The identity of an event. The time of an end is left out: it becomes more precise later."""
    began_ns = event.time_ns if event.kind == "storm" else None
    return event.port, event.priority, event.kind, event.number, began_ns


def _of_switches(fabric: Fabric) -> Iterator[WatchdogEvent]:
    try:
        found = events.read(soft_switch.counters_path(fabric.name))
    except ProvisionError:
        return
    for event in found:
        if event.switch in fabric.nodes:
            yield _of_switch(fabric, event)


def _of_switch(fabric: Fabric, event: SwitchEvent) -> WatchdogEvent:
    ports = fabric.nodes[event.switch].ports
    return _named(
        fabric,
        ports[event.port],
        [ports[index] for index in event.victims],
        number=event.number,
        time_ns=event.time_ns,
        kind=event.kind,
        action=event.action,
        priority=event.priority,
        frames=event.frames,
        seconds=(event.time_ns - event.began_ns) / 1e9,
    )


def _of_servers(fabric: Fabric) -> Iterator[WatchdogEvent]:
    for server in fabric.servers:
        try:
            found = storms.read_storms(fabric.name, server.name)
        except ProvisionError:
            continue
        for storm in found:
            yield from _of_server(fabric, server.ports, storm)


def _of_server(fabric: Fabric, ports: tuple[Port, ...], storm: Storm) -> Iterator[WatchdogEvent]:
    victims = [ports[index] for index in storm.victims if index < len(ports)]
    both = {"number": storm.number, "action": storm.action, "priority": storm.priority}
    yield _named(
        fabric, ports[storm.port], victims, time_ns=storm.seen_ns, kind="storm", frames=storm.waiting,
        seconds=(storm.seen_ns - storm.since_ns) / 1e9, **both,
    )  # fmt: skip
    if storm.over_ns is not None:
        yield _named(
            fabric, ports[storm.port], victims, time_ns=storm.over_ns, kind="restored", frames=storm.lost,
            seconds=(storm.over_ns - storm.seen_ns) / 1e9, **both,
        )  # fmt: skip


def _named(fabric: Fabric, port: Port, victims: list[Port], time_ns: int, **fields: Any) -> WatchdogEvent:
    """An event with the names of the ports and of the other ends of their cables."""
    peers = [fabric.peer(one) for one in (port, *victims)]
    culprit, *senders = (f"{peer.node}.{peer.name}" for peer in peers)
    age_s = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - time_ns) / 1e9
    return WatchdogEvent(
        time_ns=time_ns,
        time=datetime.fromtimestamp(time.time() - age_s, UTC),
        port=f"{port.node}.{port.name}",
        culprit=culprit,
        victims=tuple(f"{one.node}.{one.name}" for one in victims),
        senders=tuple(senders),
        **fields,
    )
