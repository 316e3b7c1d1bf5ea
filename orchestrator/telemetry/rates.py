# SPDX-License-Identifier: Apache-2.0
"""From two readings to what happened in between; counters may wrap, begin anew, vanish and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.telemetry.fields import (
    COLUMNS,
    FIELDS,
    GAUGES,
    RX_BYTES,
    RX_PAUSE_US,
    TX_BYTES,
    TX_PAUSE_US,
)
from orchestrator.telemetry.reading import Counts, Reading

UNLIMITED_BPS = 800_000_000_000
_SHORTEST_BYTES = 60
_SLACK = 2.0  # shapers let bursts pass, and no two counters of a port are read at the same moment
Amounts = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Rates:
    """What happened in `seconds`: `amounts` of shape (fields, ports, priorities), NaN where nobody counts.

    A gauge's amount is what it says at the end.
    """

    seconds: float
    amounts: Amounts

    def per_s(self, field: int, port: int, priority: int) -> float:
        """The rate of a counter; of a time in microseconds the share of the time, 0 to 1."""
        amount = float(self.amounts[field, port, priority])
        return amount / (1e6 if field in (RX_PAUSE_US, TX_PAUSE_US) else 1) / self.seconds


def known(amounts: Amounts) -> Amounts:
    """The same with 0 for what nobody counts: no amount is below 0."""
    return np.fmax(amounts, 0.0)


def between(before: Reading, after: Reading, most: Counts) -> Rates:
    """What happened between two readings; `most` as `possible` has it."""
    is_same = before.epoch == after.epoch
    both = before.known & after.known & is_same[:, None]
    amounts = increase(before.values, after.values, most).astype(np.float64)
    amounts[~both] = np.nan
    if not is_same.all():
        # What counts from zero again since the last reading has counted all of it since then.
        began = ~is_same & after.present & before.present
        anew = after.known & began[:, None]
        amounts[anew] = after.values[anew]
    for gauge in GAUGES:
        amounts[gauge] = np.where(after.known[gauge], after.values[gauge], np.nan)
    return Rates(max(after.time_s - before.time_s, 1e-9), amounts)


def increase(before: Counts, after: Counts, most: Counts) -> Counts:
    """How much counters grew, of which none can have grown by more than `most`.

    A counter that is lower than before went round at 32 or 64 bits if that is possible; else it began at 0.
    """
    grown = after - before  # modulo 2^64
    if (after >= before).all():
        return grown
    short = grown & np.uint64(0xFFFF_FFFF)
    was_short = (before <= np.uint64(0xFFFF_FFFF)) & (short <= most)
    round_64 = np.where(grown <= most, grown, after)
    return np.where(after >= before, grown, np.where(was_short, short, round_64))


def possible(seconds: float, rates_bps: Sequence[int | None]) -> Counts:
    """The most that each counter can grow by in a time on ports with these rates, with room to spare."""
    rates = np.array([UNLIMITED_BPS if rate is None else rate for rate in rates_bps], np.float64)
    octets = _SLACK * (seconds * rates / 8 + 1e6)
    most = np.empty((len(FIELDS), len(rates), COLUMNS), np.uint64)
    most[:] = (octets / _SHORTEST_BYTES).astype(np.uint64)[:, None]
    for field in (RX_BYTES, TX_BYTES):
        most[field] = octets.astype(np.uint64)[:, None]
    for field in (RX_PAUSE_US, TX_PAUSE_US):
        most[field] = np.uint64(_SLACK * (seconds + 1) * 1e6)
    return most
