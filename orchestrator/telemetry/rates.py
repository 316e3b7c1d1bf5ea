# SPDX-License-Identifier: Apache-2.0
"""Rates between two readings. Counters may wrap, restart at zero, vanish and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.telemetry.fields import (
    FIELDS,
    GAUGES,
    PRIORITY_SLOTS,
    RX_BYTES,
    RX_PAUSE_US,
    TX_BYTES,
    TX_PAUSE_US,
)
from orchestrator.telemetry.reading import Counts, Reading

UNLIMITED_BPS = 800_000_000_000
_SHORTEST_BYTES = 60
_HALF_OF_32_BITS = np.uint64(1 << 31)
_SLACK = 2.0  # shapers pass bursts, and no two counters of a port are read at the same moment
Amounts = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Rates:
    """The growth of every counter in `seconds`.

    `amounts` has shape (fields, ports, priorities) and is NaN where there is no counter. The amount of a gauge is
    its last value.
    """

    seconds: float
    amounts: Amounts


def known(amounts: Amounts) -> Amounts:
    """The same with 0 instead of NaN; amounts are never negative."""
    return np.fmax(amounts, 0.0)


def between(before: Reading, after: Reading, most: Counts) -> Rates:
    """The growth between two readings; `most` is the result of `possible`.

    The counters of a port with a new epoch restart at zero: their first rate is 0, since it is unknown in which
    part of the interval they counted.
    """
    amounts = increase(before.values, after.values, most).astype(np.float64)
    amounts[~(before.known & after.known)] = np.nan
    restarted = before.epoch != after.epoch
    if restarted.any():
        amounts[:, restarted] = np.where(after.known[:, restarted], 0.0, np.nan)
    for gauge in GAUGES:
        amounts[gauge] = np.where(after.known[gauge], after.values[gauge], np.nan)
    return Rates(max(after.time_s - before.time_s, 1e-9), amounts)


def increase(before: Counts, after: Counts, most: Counts) -> Counts:
    """The growth of counters, none of which can have grown by more than `most`.

    A counter that is lower than before wrapped at 32 or 64 bits if it can have grown that much, and by less than
    half of its range; otherwise it restarted at 0.
    """
    grown = after - before  # modulo 2^64
    if (after >= before).all():
        return grown
    short = grown & np.uint64(0xFFFF_FFFF)
    was_short = (before <= np.uint64(0xFFFF_FFFF)) & (short <= np.minimum(most, _HALF_OF_32_BITS))
    round_64 = np.where(grown <= most, grown, after)
    return np.where(after >= before, grown, np.where(was_short, short, round_64))


def possible(seconds: float, rates_bps: Sequence[int | None]) -> Counts:
    """An upper bound of the growth of each counter in a time, for ports with these rates (None: unlimited).

    Shape (fields, ports, priorities).
    """
    rates = np.array([UNLIMITED_BPS if rate is None else rate for rate in rates_bps], np.float64)
    octets = _SLACK * (seconds * rates / 8 + 1e6)
    most = np.empty((len(FIELDS), len(rates), PRIORITY_SLOTS), np.uint64)
    most[:] = (octets / _SHORTEST_BYTES).astype(np.uint64)[:, None]
    for field in (RX_BYTES, TX_BYTES):
        most[field] = octets.astype(np.uint64)[:, None]
    for field in (RX_PAUSE_US, TX_PAUSE_US):
        most[field] = np.uint64(_SLACK * (seconds + 1) * 1e6)
    return most
