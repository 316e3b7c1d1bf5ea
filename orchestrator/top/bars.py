# SPDX-License-Identifier: Apache-2.0
"""The status line, the banner of background processes that are not running, and the line of keys."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from orchestrator.lab.background import BackgroundProcess
from orchestrator.telemetry.events import Event
from orchestrator.telemetry.fields import (
    ALL,
    DROPS,
    RX_PAUSE_FRAMES,
    RX_PAUSE_US,
    TX_BYTES,
)
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.rates import known
from orchestrator.top import numbers, severity
from orchestrator.top.line_view import Line
from orchestrator.top.port_table import PortTable

_STOPPED = [RX_PAUSE_FRAMES, RX_PAUSE_US]
_KEYS = (
    ("1", "ports"), ("2", "map"), ("3", "pauses"), ("4", "log"), ("/", "filter"), ("<>", "sort"),
    ("⏎", "port"), ("Space", "hold"), ("?", "help"), ("q", "quit"),
)  # fmt: skip


class _Bar(Widget):
    """One line, which is drawn again if it changes."""

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
    """Fabric, time, how many ports are paused, storms, losses, traffic, the newest event: as much as fits."""

    def __init__(self, ports: WatchedPorts) -> None:
        super().__init__()
        self._fabric = f" {ports.fabric.name}"
        self._pieces: Sequence[_Piece] = ()
        self._servers = [number for number, port in enumerate(ports.ports) if port.role == "server"]

    def show(self, snapshot: Snapshot, table: PortTable, last: Event | None, is_frozen: bool) -> None:
        """Summarize a snapshot. Frames count where servers send them; a port is paused if its peer stops it."""
        amounts = snapshot.rates.amounts
        paused = int((amounts[_STOPPED, :, ALL] > 0).any(axis=0).sum())
        drops = float(known(amounts[DROPS, :, ALL]).sum()) / snapshot.rates.seconds
        sent = float(known(amounts[TX_BYTES, self._servers, ALL]).sum()) * 8 / snapshot.rates.seconds
        down = int((~(snapshot.reading.up & snapshot.reading.present)).sum())
        storms = int(snapshot.storms.sum())
        frozen = _Piece(" FROZEN", severity.STYLES[severity.ALL], _ALWAYS)
        pieces = [
            _Piece(self._fabric, severity.TITLE, _ALWAYS),
            _Piece(datetime.now().strftime(" %H:%M:%S"), severity.PLAIN, 3),
            frozen if is_frozen else _Piece(" live", severity.QUIET, 1),
            _Piece(f" {len(snapshot.ports)} ports", severity.PLAIN, 4),
            _alarm(f" {paused} paused", paused, severity.MUCH),
            _alarm(f" {storms} storms", storms, severity.ALL),
            _alarm(f" {down} down", down, severity.DOWN),
            _alarm(f" {numbers.count(drops)} drops/s", drops, severity.MOST),
            _Piece(f" {numbers.count(sent)}bit/s sent", severity.PLAIN, 6),
        ]
        if table.filter_words:
            pieces.append(_Piece(f" /{table.filter_words}", severity.STRONG, 7))
        if last is not None:
            pieces.append(_Piece(f"  last: {last.kind} {last.port}", severity.QUIET, 2))
        self._pieces = pieces
        self.on_resize()

    def on_resize(self) -> None:
        """Choose the pieces that fit."""
        self.set_line(_fitted(self._pieces, self.size.width))


class _Piece(NamedTuple):
    """A part of the status line; the pieces of the lowest rank are left out first."""

    text: str
    style: Style
    rank: int


_ALWAYS = 9


def _alarm(text: str, value: float, level: int) -> _Piece:
    """A count that is bad unless it is 0; a 0 is left out before any other count."""
    return _Piece(text, severity.STYLES[level], 8) if value else _Piece(text, severity.QUIET, 5)


def _fitted(pieces: Sequence[_Piece], width: int) -> Line:
    """The pieces of the highest ranks that fit."""
    ranks = sorted({piece.rank for piece in pieces})
    while len(ranks) > 1 and sum(len(piece.text) for piece in pieces if piece.rank in ranks) > width:
        del ranks[0]
    return tuple((piece.text, piece.style) for piece in pieces if piece.rank in ranks)


class ProcessBanner(Widget):
    """The background processes that do not run, each with the command that restarts it; hidden while all run."""

    def __init__(self) -> None:
        super().__init__()
        self._not_running: tuple[BackgroundProcess, ...] = ()
        self.display = False

    def show(self, snapshot: Snapshot) -> None:
        """Take the lines that the reports need at this width."""
        if snapshot.not_running != self._not_running:
            self._not_running = snapshot.not_running
            self.display = bool(self._not_running)
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
        """A report in one line if it fits; otherwise the command has lines of its own, to be copied."""
        lines: list[str] = []
        for process in self._not_running:
            report = f" ! {process.report}"
            parts = (
                [report] if len(report) <= width else [f" ! {process.problem}", f"   run `{process.remedy}`"]
            )
            for part in parts:
                lines += textwrap.wrap(part, max(width, 20), subsequent_indent="   ", drop_whitespace=False)
        return lines


class KeyBar(_Bar):
    """The most important keys."""

    def on_mount(self) -> None:
        """Show them once: they never change."""
        self.set_line(
            tuple(
                piece
                for key, meaning in _KEYS
                for piece in ((f" {key}", severity.TITLE), (f" {meaning}", severity.PLAIN))
            )
        )
