# SPDX-License-Identifier: Apache-2.0
"""The PFC watchdog over what a server forwards, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["drop", "forward", "alert"]
ACTIONS: tuple[Action, ...] = ("drop", "forward", "alert")
"""By their numbers in kernel/pauses.h, which begin with 1."""


@dataclass(frozen=True)
class Watchdog:
    """How long a pause is a storm, how long a quiet is its end, and what becomes of frames meanwhile.

    `rate_bps` (None: unlimited) says how long a pause's quanta last where no endpoint says so.
    """

    detect_ms: int
    restore_ms: int
    action: Action
    rate_bps: int | None

    def __str__(self) -> str:
        return f"{self.action} after {self.detect_ms} ms, restored after {self.restore_ms} ms"
