# SPDX-License-Identifier: Apache-2.0
"""One port and priority: every counter with its rate, total and history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from orchestrator.telemetry.fields import ALL, FIELDS
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.top import numbers, severity
from orchestrator.top.line_view import Line, LineView
from orchestrator.top.port_table import History, level_of


class DetailView(LineView):
    """A line for each field, of the priority or else of the whole port (`*`), then the pauses at the port."""

    def __init__(self, snapshot: Snapshot, history: History, port: int, priority: int) -> None:
        super().__init__()
        self._snapshot, self._history = snapshot, history
        self._port, self._priority = port, priority

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self._snapshot = snapshot
        self.draw()

    def heading(self) -> Sequence[Line]:
        snapshot, port = self._snapshot, self._snapshot.ports.ports[self._port]
        level = level_of(snapshot, snapshot.sample(self._port, self._priority))
        priority = "all priorities" if self._priority == ALL else f"priority {self._priority}"
        state = "up" if snapshot.reading.up[self._port] else "down"
        title = f" {port.name} → {port.peer_name}   {priority}   {port.role}, level {port.level}   {state} "
        columns = f" {'':<20} {'now/s':>7} {'total':>20} {'max/s':>7}  history"
        back = max(self.size.width - len(title) - 1, 0)
        return (
            (
                (severity.SIGNS[level], severity.STYLES[level]),
                (title, severity.STRONG),
                (f"{'Esc back ':>{back}}", severity.QUIET),
            ),
            ((columns, severity.TITLE),),
        )

    def count(self) -> int:
        others = len(self._others())
        return len(FIELDS) + (others + 2 if others else 0)

    def line(self, index: int) -> Line:
        if index < len(FIELDS):
            return self._field(index)
        index -= len(FIELDS)
        if index == 0:
            return ()
        if index == 1:
            return ((" Pauses at this port", severity.TITLE),)
        return ((f" {self._others()[index - 2]}", severity.PLAIN),)

    def _field(self, number: int) -> Line:
        field, reading = FIELDS[number], self._snapshot.reading
        priority = self._priority if reading.known[number, self._port, self._priority] else ALL
        known = reading.known[number, self._port, priority]
        past = self._history(field.name, self._port, priority)
        now = float(past[-1]) if known and len(past) else None
        most = max((float(value) for value in past if value == value), default=None)
        value = int(reading.values[number, self._port, priority])
        total = numbers.UNKNOWN if not known or field.is_gauge else str(value)
        name = field.name + ("*" if priority != self._priority and known else "")
        return (
            (f" {name:<20} {numbers.count(now):>7} {total:>20} {numbers.count(most):>7}  ",
             severity.PLAIN if now else severity.QUIET),
            (numbers.sparkline(past, max(self.size.width - 62, 8)), severity.STYLES[severity.SOME]),
        )  # fmt: skip

    def _others(self) -> list[str]:
        name = self._snapshot.ports.ports[self._port].name
        return [
            f"{pause.by} pauses {pause.of} in priority {pause.priority}: "
            f"{numbers.count(pause.frames_per_s)}/s, {numbers.percent(pause.share)} % of time, "
            f"from {pause.beginning}"
            for pause in self._snapshot.pauses
            if name in (pause.by, pause.of)
        ]


class DetailScreen(Screen[None]):
    """The view of one port on a screen of its own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,backspace", "app.pop_screen", show=False)
    ]

    def __init__(self, snapshot: Snapshot, history: History, port: int, priority: int) -> None:
        super().__init__()
        self.view = DetailView(snapshot, history, port, priority)

    def compose(self) -> ComposeResult:
        yield self.view
