# SPDX-License-Identifier: Apache-2.0
"""The log: all events, the newest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime

from orchestrator.telemetry.events import Event
from orchestrator.top import severity
from orchestrator.top.line_view import Line, LineView

_KEPT = 1000


class LogView(LineView):
    """Events with the time of their poll."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._events: deque[tuple[str, Event]] = deque(maxlen=_KEPT)

    def add(self, events: Iterable[Event]) -> None:
        """Add events to the log."""
        now = datetime.now().strftime("%H:%M:%S")
        new = [(now, event) for event in events]
        if new:
            self._events.extendleft(new)
            self.draw()

    @property
    def last(self) -> Event | None:
        """The newest event; None if there is none."""
        return self._events[0][1] if self._events else None

    def heading(self) -> Sequence[Line]:
        return (((" Events, the newest first", severity.TITLE),),)

    def count(self) -> int:
        return len(self._events)

    def placeholder(self) -> Line:
        return ((" no event yet", severity.QUIET),)

    def line(self, index: int) -> Line:
        time, event = self._events[index]
        style = severity.STYLES[severity.MOST] if event.is_bad else severity.PLAIN
        sign = "!" if event.is_bad else " "
        return (
            (f" {time} ", severity.QUIET),
            (f"{sign} {event.kind:<14} {event.port}", style),
            (f"  {event.detail}", severity.QUIET),
        )
