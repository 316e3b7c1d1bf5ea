# SPDX-License-Identifier: Apache-2.0
"""The PFC watchdog over the frames that a server forwards, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["drop", "forward", "alert"]
ACTIONS: tuple[Action, ...] = ("drop", "forward", "alert")
"""In the order of their numbers in kernel/pauses.h, which start at 1."""


@dataclass(frozen=True)
class Watchdog:
    """When a pause counts as a storm, when the storm is over, and what happens to frames meanwhile.

    `rate_bps` (None: unlimited) is the rate that sets the length of a quantum while there is no endpoint.
    """

    detect_ms: int
    restore_ms: int
    action: Action
    rate_bps: int | None

    def __str__(self) -> str:
        return f"{self.action} after {self.detect_ms} ms, restored after {self.restore_ms} ms"
