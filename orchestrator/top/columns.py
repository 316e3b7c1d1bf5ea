# SPDX-License-Identifier: Apache-2.0
"""The columns of the table of ports: width, content and sort keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.style import Style

from orchestrator.telemetry import fields
from orchestrator.telemetry.fields import ALL
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.rates import known
from orchestrator.telemetry.sample import Rows, Sample
from orchestrator.top import numbers, severity

Keys = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Column:
    """A number of a sample; `by` are the fields that it sorts by: the first one that differs decides.

    `width` leaves a blank before the longest number and the title, and a place behind them: for the mark of a
    number that is the whole port's, and for the arrow of the column that sorts.
    """

    title: str
    width: int
    name: str
    text: Callable[[float | None], str]
    by: tuple[int, ...]
    style: Callable[[float | None], Style]


def _plain(value: float | None) -> Style:
    return severity.PLAIN if value else severity.QUIET


def _frames(value: float | None) -> Style:
    return severity.STRONG if value else severity.QUIET


def _share(value: float | None) -> Style:
    return severity.STYLES[severity.of_pause(value, None)] if value else severity.QUIET


def _loss(value: float | None) -> Style:
    return severity.STYLES[severity.MOST] if value else severity.QUIET


COLUMNS = (
    Column("RxPau/s", 9, "rx_pause_per_s", numbers.count, (fields.RX_PAUSE_FRAMES,), _frames),
    Column("Rx%", 6, "rx_pause_share", numbers.percent, (fields.RX_PAUSE_US, fields.RX_PAUSE_FRAMES), _share),
    Column("TxPau/s", 9, "tx_pause_per_s", numbers.count, (fields.TX_PAUSE_FRAMES,), _frames),
    Column("Tx%", 6, "tx_pause_share", numbers.percent, (fields.TX_PAUSE_US, fields.TX_PAUSE_FRAMES), _share),
    Column("Rxbps", 7, "rx_bps", numbers.count, (fields.RX_BYTES,), _plain),
    Column("Txbps", 7, "tx_bps", numbers.count, (fields.TX_BYTES,), _plain),
    Column("Drop/s", 8, "drops_per_s", numbers.count, (fields.DROPS,), _loss),
    Column("Buf%", 6, "buffer_share", numbers.percent, (fields.BUFFER,), _share),
    Column("ECN/s", 7, "ecn_per_s", numbers.count, (fields.ECN_MARKS,), _frames),
)
PORT = len(COLUMNS)
"""Sorting by name: the order of the file."""
PAUSE = PORT + 1
"""Sorting by the longest pause, received or sent: the default."""
SORTS = (*(column.title for column in COLUMNS), "port", "pause")


def cell(column: Column, sample: Sample) -> tuple[str, Style]:
    """A number with its style; `*` marks a number of the whole port."""
    value = getattr(sample, column.name)
    is_port_wide = column.name in sample.port_wide and value is not None
    return _cell(column, value, is_port_wide) if value else _EMPTY[column.name, value is None, is_port_wide]


def _cell(column: Column, value: float | None, is_port_wide: bool) -> tuple[str, Style]:
    return f"{column.text(value):>{column.width - 1}}{'*' if is_port_wide else ' '}", column.style(value)


_EMPTY = {
    (column.name, is_unknown, is_port_wide): _cell(column, None if is_unknown else 0.0, is_port_wide)
    for column in COLUMNS
    for is_unknown in (False, True)
    for is_port_wide in (False, True)
}
"""The cells without a number or with 0, made once: most cells are such."""


def arranged(snapshot: Snapshot, rows: Rows, by: int, descending: bool) -> Rows:
    """The order in which to show the rows, pairs of port and priority."""
    places = np.arange(len(rows))
    if by == PORT:
        return places[::-1] if descending else places
    keys = [_amounts(snapshot, rows, field) for field in _fields(by)]
    if by == PAUSE:
        keys = [np.maximum(keys[0], keys[1]), keys[2] + keys[3]]
    sign = -1 if descending else 1
    # lexsort takes the most significant key last; equal rows keep the order of the file.
    return np.lexsort([places, *(sign * key for key in reversed(keys))])


def _fields(by: int) -> tuple[int, ...]:
    if by == PAUSE:
        return (fields.RX_PAUSE_US, fields.TX_PAUSE_US, fields.RX_PAUSE_FRAMES, fields.TX_PAUSE_FRAMES)
    return COLUMNS[by].by


def _amounts(snapshot: Snapshot, rows: Rows, field: int) -> Keys:
    amounts = snapshot.rates.amounts[field]
    own = amounts[rows[:, 0], rows[:, 1]]
    return known(np.where(np.isnan(own), amounts[rows[:, 0], ALL], own))
