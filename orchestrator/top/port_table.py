# SPDX-License-Identifier: Apache-2.0
"""The table of ports and priorities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
from rich.style import Style

from orchestrator.telemetry.fields import ALL, FIELDS, PRIORITIES, RX_PAUSE_US, TX_PAUSE_US
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.ports import WatchedPort, WatchedPorts
from orchestrator.telemetry.rates import Amounts
from orchestrator.telemetry.sample import Rows, Sample
from orchestrator.top import severity
from orchestrator.top.columns import COLUMNS, PAUSE, PORT, SORTS, Column, arranged, cell
from orchestrator.top.line_view import Line, LineView
from orchestrator.top.numbers import sparklines

History = Callable[[str, int, int], Amounts]
Histories = Callable[[str, Rows, int], Amounts]
_HISTORY_WIDTH = 30
_FIXED_WIDTH = 5  # the sign, the priority, and the blanks beside them


class PortTable(LineView):
    """A line for each port and priority; wide tables also have the peer and the history."""

    has_cursor = True

    def __init__(self, ports: WatchedPorts, histories: Histories, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._histories = histories
        # By port and priority, the numbers of a line and the line made from them: most ports are idle.
        self._made_of: dict[tuple[int, int], tuple[bytes, Line]] = {}
        self._keys: list[bytes] = []
        self._pasts: list[str] = []
        self._prepared = range(0)
        self._name_width = max(len(port.name) for port in ports.ports)
        self._snapshot: Snapshot | None = None
        self._width = self._peer_width = self._history_width = 0
        self._columns: tuple[Column, ...] = COLUMNS
        self._rows: Rows = np.zeros((0, 2), np.int64)
        self.sort_by, self.descending, self.filter_words = PAUSE, True, ""

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot; the cursor stays on its port."""
        at = self.chosen()
        self._snapshot = snapshot
        rows = snapshot.priorities()
        if self.filter_words:
            rows = rows[[self._matches(snapshot, *row) for row in rows.tolist()]]
        self._rows = rows[arranged(snapshot, rows, self.sort_by, self.descending)]
        if at is not None and self.cursor > 0:
            found = np.flatnonzero((self._rows == at).all(axis=1))
            self.cursor = int(found[0]) if len(found) else self.cursor
        self.draw()

    def sort(self, by: int, descending: bool) -> None:
        """Sort by a column of `SORTS`, in either direction."""
        self.sort_by, self.descending = by % len(SORTS), descending
        self._again()

    def filter(self, words: str) -> None:
        """Show only the lines that contain all words."""
        self.filter_words = words.lower()
        self._again()

    def chosen(self) -> tuple[int, int] | None:
        """The port and priority under the cursor."""
        if self.cursor >= len(self._rows):
            return None
        port, priority = self._rows[self.cursor].tolist()
        return port, priority

    def count(self) -> int:
        return len(self._rows)

    def placeholder(self) -> Line:
        text = (
            f" no line matches {self.filter_words!r}; Esc shows all lines"
            if self.filter_words
            else " no ports"
        )
        return ((text, severity.QUIET),)

    def heading(self) -> Sequence[Line]:
        self._divide()
        arrow = "▼" if self.descending else "▲"
        by_port = arrow if self.sort_by == PORT else " "
        names = [(f"  {'Port' + by_port:<{self._name_width}} Pr", self.sort_by == PORT)]
        if self._peer_width:
            names.append((" Peer".ljust(self._peer_width), False))
        for number, column in enumerate(self._columns):
            sorts = number == self.sort_by or (self.sort_by == PAUSE and "pause_share" in column.name)
            names.append((f"{column.title:>{column.width - 1}}{arrow if sorts else ' '}", sorts))
        if self._history_width:
            names.append(("pause, history".rjust(self._history_width), False))
        line = tuple(
            (text, severity.TITLE + _UNDERLINED if sorts else severity.TITLE) for text, sorts in names
        )
        return (line,)

    def prepare(self, indices: range) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        rows = self._rows[indices.start : indices.stop]
        self._prepared = indices
        self._keys = _numbers_of(snapshot, rows, self._width)
        self._pasts = self._drawn_pasts(snapshot, rows) if self._history_width and len(rows) else []

    def line(self, index: int) -> Line:
        number, priority = self._rows[index].tolist()
        at = index - self._prepared.start
        key, made = self._keys[at], self._made_of.get((number, priority))
        if made is None or made[0] != key:
            made = self._made_of[number, priority] = key, self._line(number, priority)
        past = ((self._pasts[at], severity.STYLES[severity.SOME]),) if self._pasts else ()
        return (*made[1], *past)

    def _line(self, number: int, priority: int) -> Line:
        assert self._snapshot is not None
        port = self._snapshot.ports.ports[number]
        found = self._snapshot.sample(number, priority)
        level = level_of(self._snapshot, found)
        name = f"{port.name:<{self._name_width}} {'*' if priority == ALL else priority:>2}"
        pieces = [(f"{severity.SIGNS[level]} ", severity.STYLES[level]), (name, _name_style(level))]
        if self._peer_width:
            pieces.append((f" {port.peer_name}".ljust(self._peer_width), severity.QUIET))
        pieces += [cell(column, found) for column in self._columns]
        return tuple(pieces)

    def _drawn_pasts(self, snapshot: Snapshot, rows: Rows) -> list[str]:
        """Histories of pause time; of pause frames without a counter of the time."""
        ports, priorities = rows[:, 0], rows[:, 1]
        amounts = snapshot.rates.amounts
        counted = ~(
            np.isnan(amounts[RX_PAUSE_US, ports, priorities])
            & np.isnan(amounts[TX_PAUSE_US, ports, priorities])
        )
        values = self._both("pause_us", rows) / 1e6
        if not counted.all():
            values = np.where(counted[:, None], values, self._both("pause_frames", rows))
        return sparklines(values, self._history_width, np.where(counted, 1.0, np.nan))

    def _both(self, field: str, rows: Rows) -> Amounts:
        width = self._history_width
        return np.fmax(
            self._histories(f"rx_{field}", rows, width), self._histories(f"tx_{field}", rows, width)
        )

    def _divide(self) -> None:
        """Choose the columns that fit; peer and history get the rest. Once per screen: `size` is slow."""
        self._width = self.size.width
        free = self._width - self._name_width - _FIXED_WIDTH
        ends = accumulate(column.width for column in COLUMNS)
        self._columns = tuple(column for column, end in zip(COLUMNS, ends, strict=True) if end <= free)
        free -= sum(column.width for column in self._columns)
        self._peer_width = self._name_width + 1 if free > self._name_width else 0
        free -= self._peer_width + 1
        self._history_width = min(free, _HISTORY_WIDTH) if self._peer_width and free >= 8 else 0

    def _again(self) -> None:
        if self._snapshot is not None:
            self.show(self._snapshot)

    def _matches(self, snapshot: Snapshot, number: int, priority: int) -> bool:
        if not self.filter_words:
            return True
        text = _words(snapshot, snapshot.ports.ports[number], number, priority)
        return all(word in text for word in self.filter_words.split())


_UNDERLINED = Style(underline=True)
_COUNTED = [number for number, field in enumerate(FIELDS) if not field.is_gauge]


def _numbers_of(snapshot: Snapshot, rows: Rows, width: int) -> list[bytes]:
    """All inputs of each line as bytes: equal bytes make equal lines."""
    ports, priorities = rows[:, 0], rows[:, 1]
    numbers = np.concatenate(
        (snapshot.rates.amounts[:, ports, priorities], snapshot.rates.amounts[:, ports, ALL])
    )
    counted = [*_COUNTED, *(len(FIELDS) + number for number in _COUNTED)]
    numbers[counted] /= snapshot.rates.seconds
    storms = snapshot.storms[ports, np.minimum(priorities, PRIORITIES - 1)] & (priorities != ALL)
    states = (snapshot.reading.present[ports], snapshot.reading.up[ports], storms, np.full(len(rows), width))
    return [row.tobytes() for row in np.vstack((numbers, *states)).T.copy()]


def level_of(snapshot: Snapshot, found: Sample) -> int:
    """The severity of a line: the worse of being paused and pausing the peer."""
    if not (snapshot.reading.present[found.port] and snapshot.reading.up[found.port]):
        return severity.DOWN
    if found.priority is not None and snapshot.storms[found.port, found.priority]:
        return severity.ALL
    return max(
        severity.of_pause(found.rx_pause_share, found.rx_pause_per_s),
        severity.of_pause(found.tx_pause_share, found.tx_pause_per_s),
    )


def _name_style(level: int) -> Style:
    return severity.STYLES[severity.DOWN] if level == severity.DOWN else severity.PLAIN


def _words(snapshot: Snapshot, port: WatchedPort, number: int, priority: int) -> str:
    """The words that a filter matches: names, role, level, priority, states."""
    states = [
        word
        for word, holds in (
            ("paused", np.nan_to_num(snapshot.rates.amounts[:4, number, priority]).any()),
            ("storm", priority != ALL and snapshot.storms[number, priority]),
            ("down", not snapshot.reading.up[number]),
        )
        if holds
    ]
    return " ".join(
        [port.name, port.peer_name, port.role, f"level{port.level}", f"p{priority}", *states]
    ).lower()
