# SPDX-License-Identifier: Apache-2.0
"""The map of the fabric, with pauses as signs and colours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.style import Style

from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.top import severity
from orchestrator.top.fabric_map import Plan, Spot, plan
from orchestrator.top.line_view import Line, LineView


class MapView(LineView):
    """The map of a fabric; its layout is constant, only its signs change."""

    def __init__(self, ports: WatchedPorts, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan = plan(ports)
        self._legend = ports.fabric.shape.diagram_legend
        self._at = _places(self._plan)
        self._levels = np.full((2, len(ports)), severity.NONE)
        self._stopped, self._stops = self._levels.tolist()
        self._kept: dict[int, Line] = {}

    @property
    def lines(self) -> int:
        """The height of the whole map in lines."""
        return len(self._plan) + len(self.heading())

    def show(self, snapshot: Snapshot) -> None:
        """Show this from now on."""
        before, self._levels = self._levels, np.array(severity.of_ports(snapshot))
        self._stopped, self._stops = self._levels.tolist()
        changed = np.flatnonzero((before != self._levels).any(axis=0)).tolist()
        for line in {line for port in changed for line in self._at.get(port, ())}:
            self._kept.pop(line, None)
        if changed or not self.is_drawn:
            self.draw()

    def heading(self) -> Sequence[Line]:
        signs: list[tuple[str, Style]] = [(" ", severity.PLAIN)]
        for sign, meaning, style in zip(severity.SIGNS, severity.MEANINGS, severity.STYLES, strict=True):
            signs += [(sign, style), (f" {meaning}  ", severity.QUIET)]
        return (((f" Pauses; {self._legend}", severity.TITLE),), tuple(signs))

    def count(self) -> int:
        return len(self._plan)

    def line(self, index: int) -> Line:
        made = self._kept.get(index)
        if made is None:
            pieces = (self._piece(spot) for spot in self._plan[index])
            made = self._kept[index] = ((" ", severity.PLAIN), *pieces)
        return made

    def _piece(self, spot: Spot) -> tuple[str, Style]:
        levels = [self._stopped[port] for port in spot.stopped] + [self._stops[port] for port in spot.stops]
        if not levels:
            return spot.text, severity.PLAIN
        level = max(levels)
        if spot.is_sign:
            return severity.SIGNS[level], severity.STYLES[level]
        return spot.text, severity.STYLES[level] if level else severity.PLAIN


def _places(plan: Plan) -> dict[int, set[int]]:
    """The lines that show a port."""
    found: dict[int, set[int]] = {}
    for number, line in enumerate(plan):
        for port in {port for spot in line for port in (*spot.stopped, *spot.stops)}:
            found.setdefault(port, set()).add(number)
    return found
