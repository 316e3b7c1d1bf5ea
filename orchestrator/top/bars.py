# SPDX-License-Identifier: Apache-2.0
"""The line at the top, which says how things stand, and the line of keys at the bottom."""

from __future__ import annotations

import textwrap
from datetime import datetime

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from orchestrator.telemetry.events import Event
from orchestrator.telemetry.fields import (
    ALL,
    DROPS,
    RX_PAUSE_FRAMES,
    RX_PAUSE_US,
    TX_BYTES,
    TX_PAUSE_FRAMES,
    TX_PAUSE_US,
)
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.rates import known
from orchestrator.top import numbers, severity
from orchestrator.top.line_view import Line
from orchestrator.top.port_table import PortTable

_PAUSES = [RX_PAUSE_FRAMES, TX_PAUSE_FRAMES, RX_PAUSE_US, TX_PAUSE_US]
_KEYS = (
    ("1", "ports"), ("2", "map"), ("3", "who"), ("4", "log"), ("/", "filter"), ("<>", "sort"),
    ("⏎", "port"), ("Space", "freeze"), ("?", "help"), ("q", "quit"),
)  # fmt: skip


class _Bar(Widget):
    """One line, drawn again if it differs."""

    _line: Line = ()

    def set_line(self, line: Line) -> None:
        """Show this line from now on."""
        if line != self._line:
            self._line = line
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The line."""
        strip = Strip([Segment(text, severity.BAR + style) for text, style in self._line])
        return [
            strip.adjust_cell_length(self.size.width, severity.BAR).crop(crop.x, crop.right)
        ] * crop.height


class StatusBar(_Bar):
    """Name, time, how many ports are paused, losses, storms, the newest event."""

    def __init__(self, ports: WatchedPorts) -> None:
        super().__init__()
        self._fabric = f" {ports.fabric.name} "

    def show(self, snapshot: Snapshot, table: PortTable, last: Event | None, is_frozen: bool) -> None:
        """Say how things stand."""
        amounts = snapshot.rates.amounts
        paused = int((amounts[_PAUSES, :, ALL] > 0).any(axis=0).sum())
        drops = float(known(amounts[DROPS, :, ALL]).sum()) / snapshot.rates.seconds
        sent = float(known(amounts[TX_BYTES, :, ALL]).sum()) * 8 / snapshot.rates.seconds
        down = int((~(snapshot.reading.up & snapshot.reading.present)).sum())
        storms = int(snapshot.storms.sum())
        state = ("FROZEN ", severity.STYLES[severity.ALL]) if is_frozen else ("live ", severity.QUIET)
        pieces = [
            (self._fabric, severity.TITLE),
            (datetime.now().strftime("%H:%M:%S "), severity.PLAIN),
            state,
            (f"{len(snapshot.ports)} ports", severity.PLAIN),
            _alarm(f" {paused} paused", paused, severity.MUCH),
            _alarm(f" {storms} storms", storms, severity.ALL),
            _alarm(f" {down} down", down, severity.DOWN),
            _alarm(f" {numbers.count(drops)} drops/s", drops, severity.MOST),
            (f" {numbers.count(sent)}bit/s", severity.PLAIN),
        ]
        if table.wanted:
            pieces.append((f" /{table.wanted}", severity.STRONG))
        if last is not None:
            pieces.append((f"  last: {last.kind} {last.port}", severity.QUIET))
        self.set_line(tuple(pieces))


class ProcessBanner(Widget):
    """The background processes that do not run, each with the command that restarts it; hidden while all run."""

    def __init__(self) -> None:
        super().__init__()
        self._reports: tuple[str, ...] = ()
        self.display = False

    def show(self, snapshot: Snapshot) -> None:
        """Take the lines that the reports need at this width."""
        reports = tuple(process.report for process in snapshot.not_running)
        if reports != self._reports:
            self._reports = reports
            self.display = bool(reports)
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """One line for each report, more where the screen is narrow."""
        return len(self._lines(width))

    def render_lines(self, crop: Region) -> list[Strip]:
        """The reports."""
        style = severity.STYLES[severity.ALL]
        lines = [*self._lines(self.size.width), *([""] * self.size.height)][crop.y : crop.bottom]
        strips = (Strip([Segment(line, style)], len(line)) for line in lines)
        return [strip.adjust_cell_length(self.size.width, style).crop(crop.x, crop.right) for strip in strips]

    def _lines(self, width: int) -> list[str]:
        return [
            line
            for report in self._reports
            for line in textwrap.wrap(f" ! {report}", max(width, 20), subsequent_indent="   ")
        ]


def _alarm(text: str, value: float, level: int) -> tuple[str, Style]:
    return text, severity.STYLES[level] if value else severity.QUIET


class KeyBar(_Bar):
    """The keys that one needs most."""

    def on_mount(self) -> None:
        """They never change."""
        self.set_line(
            tuple(
                piece
                for key, meaning in _KEYS
                for piece in ((f" {key}", severity.TITLE), (f" {meaning}", severity.PLAIN))
            )
        )
