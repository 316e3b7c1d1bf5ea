# SPDX-License-Identifier: Apache-2.0
"""The PFC watchdog in a server's forwarding program: its settings, and the storms that it has detected."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import kernel
from hipsnet.node.pauses import Rows, mapped_pauses
from hipsnet.node.watchdog import ACTIONS, Action, Watchdog

_NS_PER_MS = 1_000_000
_QUANTUM_BITS, _PS_PER_S = 512, 10**12
_UNLIMITED_BPS = 10_000_000_000  # PFC_UNLIMITED_BPS of hipsnet/stack
_LOOKS = 100
_SETTINGS = ("storm_action", "storm_quantum_ps", "detect_ns", "restore_ns")


@dataclass(frozen=True)
class Storm:
    """The last storm of a port's priority; `number` is the count of storms. Times are of CLOCK_MONOTONIC.

    `victims` are the ports whose frames could not leave, `waiting` their number at the detection, `lost` the
    frames dropped because of it. `over_ns` is None while it lasts.
    """

    port: int
    priority: int
    number: int
    action: Action
    since_ns: int
    seen_ns: int
    over_ns: int | None
    victims: tuple[int, ...]
    waiting: int
    lost: int


def set_watchdog(fabric: str, node: str, watchdog: Watchdog | None) -> None:
    """Set the watchdog of all ports of a node, None for none. Raises ProvisionError if it has no program."""
    with mapped_pauses(fabric, node) as rows:
        for name, value in zip(_SETTINGS, _settings(watchdog), strict=True):
            rows[name] = value


def has_watchdog(fabric: str, node: str, watchdog: Watchdog | None) -> bool:
    """Whether the program has this watchdog. Raises ProvisionError if the node has no program."""
    with mapped_pauses(fabric, node) as rows:
        return all(
            bool((rows[name] == value).all())
            for name, value in zip(_SETTINGS, _settings(watchdog), strict=True)
        )


def read_storms(fabric: str, node: str) -> tuple[Storm, ...]:
    """The last storm of every port and priority that had one. Raises ProvisionError if the node has no program."""
    with mapped_pauses(fabric, node) as rows:
        found = _whole(rows)
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    return tuple(
        _storm(found[port], int(port), int(priority), now)
        for port, priority in np.argwhere(found["storms"] > 0)
    )


def _whole(rows: Rows) -> Rows:
    """A consistent copy: no storm was being recorded while it was made."""
    for _ in range(_LOOKS):
        found = rows.copy()
        recording = found["storm_ns"] & np.uint64(kernel.constant("STORM_RECORDING"))
        if not recording.any() and np.array_equal(found["storm_ns"], rows["storm_ns"]):
            break
    return found


def _storm(row: Any, port: int, priority: int, now_ns: int) -> Storm:
    over_ns: int | None = int(row["storm_over_ns"][priority])
    # The program detects the end with the next frame; a reader need not wait for it.
    if row["storm_ns"][priority]:
        quiet_ns = int(row["until_ns"][priority]) + int(row["restore_ns"])
        over_ns = quiet_ns if quiet_ns <= now_ns else None
    bits = int(row["storm_victims"][priority])
    return Storm(
        port=port,
        priority=priority,
        number=int(row["storms"][priority]),
        action=ACTIONS[max(int(row["storm_action"]), 1) - 1],
        since_ns=int(row["storm_since_ns"][priority]),
        seen_ns=int(row["storm_seen_ns"][priority]),
        over_ns=over_ns,
        victims=tuple(at for at in range(kernel.constant("STORM_VICTIMS")) if bits >> at & 1),
        waiting=int(row["storm_waiting"][priority]),
        lost=int(row["storm_lost"][priority]),
    )


def _settings(watchdog: Watchdog | None) -> tuple[int, int, int, int]:
    if watchdog is None:
        return 0, 0, 0, 0
    quantum_ps = _QUANTUM_BITS * _PS_PER_S // (watchdog.rate_bps or _UNLIMITED_BPS)
    times = (watchdog.detect_ms * _NS_PER_MS, watchdog.restore_ms * _NS_PER_MS)
    return 1 + ACTIONS.index(watchdog.action), quantum_ps, *times
