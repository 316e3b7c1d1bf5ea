"""The fabric with its pauses: signs and colours on the plan."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.top import severity
from orchestrator.top.fabric_map import Spot, legend, plan
from orchestrator.top.line_view import Line, LineView


class MapView(LineView):
    """The plan of a fabric; its lines never move, their signs do."""

    def __init__(self, ports: WatchedPorts, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan = plan(ports)
        self._legend = legend(ports.fabric)
        self._stopped = self._stops = [severity.NONE] * len(ports)

    @property
    def lines(self) -> int:
        """The lines that it takes to show all."""
        return len(self._plan) + len(self.heading())

    def show(self, snapshot: Snapshot) -> None:
        """Show this from now on."""
        before = self._stopped, self._stops
        stopped, stops = severity.of_ports(snapshot)
        self._stopped, self._stops = stopped.tolist(), stops.tolist()
        if (self._stopped, self._stops) != before or not self.is_drawn:
            self.draw()

    def heading(self) -> Sequence[Line]:
        signs: list[tuple[str, Style]] = [(" ", severity.PLAIN)]
        for sign, meaning, style in zip(severity.SIGNS, severity.MEANINGS, severity.STYLES, strict=True):
            signs += [(sign, style), (f" {meaning}  ", severity.QUIET)]
        return (((f" Pauses; {self._legend}", severity.TITLE),), tuple(signs))

    def count(self) -> int:
        return len(self._plan)

    def line(self, index: int) -> Line:
        return ((" ", severity.PLAIN), *(self._piece(spot) for spot in self._plan[index]))

    def _piece(self, spot: Spot) -> tuple[str, Style]:
        levels = [self._stopped[port] for port in spot.stopped] + [self._stops[port] for port in spot.stops]
        if not levels:
            return spot.text, severity.PLAIN
        level = max(levels)
        if spot.is_sign:
            return severity.SIGNS[level], severity.STYLES[level]
        return spot.text, severity.STYLES[level] if level else severity.PLAIN
