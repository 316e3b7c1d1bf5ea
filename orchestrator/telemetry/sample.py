# SPDX-License-Identifier: Apache-2.0
"""The numbers of one port and priority in one interval: a line of the screen, of JSON and of CSV."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.telemetry.fields import (
    ALL,
    BUFFER,
    BUFFER_SIZE,
    DROPS,
    ECN_MARKS,
    FIELDS,
    PRIORITIES,
    PRIORITY_SLOTS,
    RX_BYTES,
    RX_FRAMES,
    RX_PAUSE_FRAMES,
    RX_PAUSE_US,
    TX_BYTES,
    TX_FRAMES,
    TX_PAUSE_FRAMES,
    TX_PAUSE_US,
)
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.rates import Rates
from orchestrator.telemetry.reading import Reading

Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Sample:
    """Rates of a port and priority (None: the port as a whole). A rate without a counter is None.

    `port_wide` names the rates that are the whole port's, because they are not counted by priority. The shares of
    time paused and of the buffer in use are between 0 and 1.
    """

    port: int
    priority: int | None
    rx_pause_per_s: float | None
    tx_pause_per_s: float | None
    rx_pause_share: float | None
    tx_pause_share: float | None
    rx_bps: float | None
    tx_bps: float | None
    rx_frames_per_s: float | None
    tx_frames_per_s: float | None
    drops_per_s: float | None
    ecn_per_s: float | None
    buffer_share: float | None
    port_wide: frozenset[str]


_RATES = (
    ("rx_pause_per_s", RX_PAUSE_FRAMES, 1.0),
    ("tx_pause_per_s", TX_PAUSE_FRAMES, 1.0),
    ("rx_pause_share", RX_PAUSE_US, 1e-6),
    ("tx_pause_share", TX_PAUSE_US, 1e-6),
    ("rx_bps", RX_BYTES, 8.0),
    ("tx_bps", TX_BYTES, 8.0),
    ("rx_frames_per_s", RX_FRAMES, 1.0),
    ("tx_frames_per_s", TX_FRAMES, 1.0),
    ("drops_per_s", DROPS, 1.0),
    ("ecn_per_s", ECN_MARKS, 1.0),
)
_SHARES = ("rx_pause_share", "tx_pause_share")
RATE_NAMES = (*(name for name, _, _ in _RATES), "buffer_share")


def sample(rates: Rates, port: int, priority: int) -> Sample:
    """The rates of one port and priority; values that are not counted by priority are those of the whole port."""
    own = rates.amounts[:, port, priority].tolist()
    of_port = own if priority == ALL else rates.amounts[:, port, ALL].tolist()
    found: dict[str, float | None] = {}
    port_wide = set()
    for name, field, factor in _RATES:
        amount = own[field]
        if math.isnan(amount):
            amount = of_port[field]
            if math.isnan(amount):
                found[name] = None
                continue
            port_wide.add(name)
        value = amount * factor / rates.seconds
        found[name] = min(value, 1.0) if name in _SHARES else value
    held, size = own[BUFFER], own[BUFFER_SIZE]
    if math.isnan(held):
        held, size = of_port[BUFFER], of_port[BUFFER_SIZE]
        port_wide.update(() if math.isnan(held) else ("buffer_share",))
    found["buffer_share"] = held / size if held >= 0 and size > 0 else None
    return Sample(port, None if priority == ALL else priority, port_wide=frozenset(port_wide), **found)


def totals(reading: Reading, port: int, priority: int) -> dict[str, int]:
    """The counters of a port and priority; for ALL those that are counted for the whole port only.

    So a sum over the priorities and ALL counts nothing twice.
    """
    known = reading.known[:, port, priority]
    if priority == ALL:
        known = known & ~reading.known[:, port, :PRIORITIES].any(axis=1)
    return {
        FIELDS[number].name: int(reading.values[number, port, priority]) for number in np.flatnonzero(known)
    }


def priorities(ports: WatchedPorts, reading: Reading) -> Rows:
    """The (port, priority) that get a line, shape (lines, 2): lossless priorities and those ever paused.

    A port without such a priority has one line for the whole port.
    """
    frames = reading.values[[RX_PAUSE_FRAMES, TX_PAUSE_FRAMES], :, :PRIORITIES]
    worth = np.zeros((len(ports), PRIORITY_SLOTS), bool)
    worth[:, :PRIORITIES] = (frames > 0).any(axis=0)
    worth[:, list(ports.lossless)] = True
    worth[:, ALL] = ~worth.any(axis=1)
    return np.argwhere(worth)
