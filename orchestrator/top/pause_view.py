# SPDX-License-Identifier: Apache-2.0
"""The view of pauses: a line for each, with its culprit, its victim, and the node at which it begins."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.telemetry.deadlocks import Deadlock
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.pauses import Pause
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.top import numbers, severity
from orchestrator.top.line_view import Line, LineView


class PauseView(LineView):
    """The deadlocks and pauses of the last interval, the longest pause first."""

    def __init__(self, ports: WatchedPorts, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._width = max(len(port.name) for port in ports.ports)
        self._pauses: tuple[Pause, ...] = ()
        self._deadlocks: tuple[Deadlock, ...] = ()

    def show(self, snapshot: Snapshot) -> None:
        """Show the pauses of a snapshot."""
        self._pauses = snapshot.pauses
        self._deadlocks = snapshot.deadlocks
        self.draw()

    def heading(self) -> Sequence[Line]:
        width = self._width + 2
        text = f" {'Culprit':<{width}}  {'Victim':<{width}} Pr {'Pau/s':>6} {'Time%':>5}  Begins at"
        return (((text, severity.TITLE),),)

    def count(self) -> int:
        return len(self._deadlocks) + len(self._pauses)

    def placeholder(self) -> Line:
        return ((" no port is paused", severity.QUIET),)

    def line(self, index: int) -> Line:
        if index < len(self._deadlocks):
            return ((f" deadlock, {self._deadlocks[index]}", severity.STYLES[severity.ALL]),)
        pause = self._pauses[index - len(self._deadlocks)]
        level = severity.of_pause(pause.share, pause.frames_per_s)
        width = self._width + 1
        return (
            (f" {pause.by:<{width}}", severity.STRONG),
            (f"{severity.SIGNS[level]}→ ", severity.STYLES[level]),
            (f"{pause.of:<{width}}", severity.PLAIN),
            (f"  {pause.priority} {numbers.count(pause.frames_per_s):>6} ", severity.PLAIN),
            (f"{numbers.percent(pause.share):>5}", severity.STYLES[level]),
            (f"  {pause.beginning}", severity.PLAIN),
        )
