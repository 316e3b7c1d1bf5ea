# SPDX-License-Identifier: Apache-2.0
"""The severity of a pause, in a few levels with a sign and a colour each."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import Any

import numpy as np
from rich.style import Style

from orchestrator.telemetry.fields import (
    EACH_PRIORITY,
    RX_PAUSE_FRAMES,
    RX_PAUSE_US,
    TX_PAUSE_FRAMES,
    TX_PAUSE_US,
)
from orchestrator.telemetry.monitor import Snapshot
from orchestrator.telemetry.rates import known

NONE, SOME, MUCH, MOST, ALL, DOWN = range(6)
SIGNS = "·░▒▓█x"
_SHARES = (1e-12, 0.1, 0.5, 0.99)
_FRAMES_PER_S = (1e-12, 10.0, 100.0)
MEANINGS = ("none", "some", "10 %", "50 %", "99 %", "down")
HAS_COLOR = not os.environ.get("NO_COLOR")


def _style(color: str, bgcolor: str | None = None, bold: bool = False, underline: bool = False) -> Style:
    """A style; without its colours if the terminal has none."""
    shades = {"color": color, "bgcolor": bgcolor} if HAS_COLOR else {}
    return Style(**shades, bold=bold or None, underline=underline or None)  # type: ignore[arg-type]


GROUND = _style("#d5dbe3", "#11151a")
BAR = _style("#d5dbe3", "#1e2630")
QUIET = _style("#7f8c98")
PLAIN = Style()
STRONG = Style(bold=True)
TITLE = _style("#8ab4f8", bold=True)
STYLES = (
    QUIET,
    _style("#e5c07b"),
    _style("#f0a04b"),
    _style("#f2705d", bold=True),
    _style("#ffffff", "#c0392b", bold=True),
    _style("#ff79c6", bold=True, underline=True),
)
Levels = np.ndarray[Any, np.dtype[np.int64]]


def of_pause(share: float | None, frames_per_s: float | None) -> int:
    """The severity of a pause by its share of time or, if that is not counted, by its frames."""
    if share is not None:
        return bisect_right(_SHARES, share)
    return bisect_right(_FRAMES_PER_S, frames_per_s or 0.0)


def of_ports(snapshot: Snapshot) -> tuple[Levels, Levels]:
    """Of every port at its worst priority: (of being paused, of pausing the other end)."""
    stopped = _worst(snapshot, RX_PAUSE_FRAMES, RX_PAUSE_US)
    stopped = np.where(snapshot.storms.any(axis=1), ALL, stopped)
    stops = _worst(snapshot, TX_PAUSE_FRAMES, TX_PAUSE_US)
    gone = ~(snapshot.reading.present & snapshot.reading.up)
    return np.where(gone, DOWN, stopped), np.where(gone, DOWN, stops)


def _worst(snapshot: Snapshot, frames: int, time: int) -> Levels:
    seconds = snapshot.rates.seconds
    share = snapshot.rates.amounts[time, :, EACH_PRIORITY] / 1e6 / seconds
    count = known(snapshot.rates.amounts[frames, :, EACH_PRIORITY]) / seconds
    by_share = np.searchsorted(_SHARES, known(share), side="right")
    by_frames = np.searchsorted(_FRAMES_PER_S, count, side="right")
    return np.asarray(np.where(np.isnan(share), by_frames, by_share).max(axis=1), np.int64)
