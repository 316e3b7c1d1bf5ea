# SPDX-License-Identifier: Apache-2.0
"""Formatting numbers in few characters, and histories as rows of blocks."""

from __future__ import annotations

import math

import numpy as np

from orchestrator.telemetry.rates import Amounts

UNKNOWN = "-"
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
_BLOCKS = np.array(list(" ▁▂▃▄▅▆▇█"))


def count(value: float | None) -> str:
    """Three significant digits in at most 5 characters: 0, 0.25, 12.3, 4.56k, 7.8G; - for None and NaN."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if value == 0:
        return "0"
    step = 0
    while value >= 999.5 and step < len(_PREFIXES) - 1:
        value, step = value / 1000, step + 1
    if step == 0 and value == int(value):
        return str(int(value))
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}{_PREFIXES[step]}"


def percent(share: float | None) -> str:
    """A share in percent, in at most 4 characters: 0, <0.1, 0.3, 12, 100, >999; - for None and NaN."""
    if share is None or math.isnan(share):
        return UNKNOWN
    value = share * 100
    if 0 < value < 0.1:
        return "<0.1"
    if value >= 999.5:
        return ">999"
    return f"{value:.1f}" if 0 < value < 9.95 else f"{value:.0f}"


def sparkline(values: Amounts, width: int, top: float | None = None) -> str:
    """The last `width` values, the newest at the right, as blocks relative to `top` (default: the largest value).

    A value above 0 is never blank; an unknown value is.
    """
    tops = np.array([np.nan if top is None else top])
    return sparklines(values[None, :], width, tops)[0]


def sparklines(values: Amounts, width: int, tops: Amounts) -> list[str]:
    """A sparkline for each row; a top of NaN stands for the largest value of the row."""
    shown = np.nan_to_num(values[:, -width:])
    highest = np.where(np.isnan(tops), shown.max(axis=1, initial=0.0), tops)[:, None]
    steps = np.rint(8 * shown / np.where(highest > 0, highest, np.inf)).clip(shown > 0, 8)
    steps[~(highest > 0)[:, 0]] = 0
    return ["".join(row).rjust(width) for row in _BLOCKS[steps.astype(np.int64)].tolist()]
