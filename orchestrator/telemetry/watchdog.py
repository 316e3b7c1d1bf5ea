"""What the watchdog of a lab's soft switches has told: storms, by the names of ports."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from hipsnet.errors import ProvisionError
from hipsnet.stack import switch_events
from hipsnet.stack.switch_events import SwitchEvent
from hipsnet.topology import Fabric
from orchestrator import soft_switch
from orchestrator.telemetry.events import Event


@dataclass(frozen=True)
class Told:
    """A storm that was detected at `port`, or is over there.

    `culprit` is the other end of its cable, which pauses; `victims` are the ports of the same switch by which the
    frames came that waited, `senders` the other ends of theirs. `frames` were waiting; of one that is over, it
    has cost so many. `seconds` it had been stuck when it was detected, or lasted from then on.
    """

    number: int
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


def told(fabric: Fabric) -> tuple[Told, ...]:
    """The last events, in their order; nothing where no soft switch runs."""
    try:
        found = switch_events.read(soft_switch.counters_path(fabric.name))
    except ProvisionError:
        return ()
    known = (event for event in found if event.switch in fabric.nodes)
    return tuple(_by_names(fabric, event) for event in known)


class WatchdogLog:
    """What is told from now on."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._last = max((event.number for event in told(fabric)), default=0)

    def new(self) -> tuple[Event, ...]:
        """What was told since the last call."""
        found = told(self._fabric)
        newest = max((event.number for event in found), default=0)
        if newest < self._last:  # other switches, which begin with 1
            self._last = 0
        last, self._last = self._last, newest
        return tuple(as_event(event) for event in found if event.number > last)


def as_event(event: Told) -> Event:
    """The same in words."""
    if event.kind == "restored":
        detail = f"priority {event.priority}: after {event.seconds:.1f} s, {event.frames} frames dropped"
        return Event("storm restored", event.port, detail)
    detail = f"priority {event.priority}: {event.action}; stopped by {event.culprit}"
    return Event("storm detected", event.port, f"{detail}, holds up {', '.join(event.senders)}")


def _by_names(fabric: Fabric, event: SwitchEvent) -> Told:
    ports = fabric.nodes[event.switch].ports
    victims = [ports[index] for index in event.victims]
    peers = [fabric.peer(port) for port in (ports[event.port], *victims)]
    culprit, *senders = (f"{peer.node}.{peer.name}" for peer in peers)
    age_s = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - event.time_ns) / 1e9
    return Told(
        number=event.number,
        time=datetime.fromtimestamp(time.time() - age_s, UTC),
        kind=event.kind,
        action=event.action,
        port=f"{event.switch}.{ports[event.port].name}",
        priority=event.priority,
        culprit=culprit,
        victims=tuple(f"{port.node}.{port.name}" for port in victims),
        senders=tuple(senders),
        frames=event.frames,
        seconds=(event.time_ns - event.began_ns) / 1e9,
    )
