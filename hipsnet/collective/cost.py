# SPDX-License-Identifier: Apache-2.0
"""The cost model: the time of a schedule from four constants, and their fit to measured times.

    time = call + step x steps + message x messages of the busiest rank + byte x bytes of the busiest port

Steps wait for each other; messages cost the processor of a rank; bytes cost time on a port.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.loads import report
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Topology

CALL_US, STEP_US, MESSAGE_US = 20.0, 250.0, 60.0
"""Rounded from calibrations of labs with nine servers on two cores. Only differences between schedules decide."""
_UNLIMITED_BYTE_NS = 2.0
_OVERHEAD = 1.05


@dataclass(frozen=True)
class Features:
    """What a schedule's time depends on; `port_bytes` are those of the busiest port in one direction."""

    steps: int
    messages: int
    port_bytes: float


@dataclass(frozen=True)
class Constants:
    """The constants of the model: microseconds, and nanoseconds per byte."""

    call_us: float
    step_us: float
    message_us: float
    byte_ns: float

    def time_s(self, features: Features) -> float:
        """Return the predicted time in seconds."""
        of_messages = self.step_us * features.steps + self.message_us * features.messages
        return (self.call_us + of_messages) * 1e-6 + self.byte_ns * 1e-9 * features.port_bytes

    def __str__(self) -> str:
        return (
            f"call {self.call_us:g} us, step {self.step_us:g} us, message {self.message_us:g} us, "
            f"byte {self.byte_ns:g} ns"
        )


@dataclass(frozen=True)
class Sample:
    """One measurement: the features of the schedule, and the time in seconds."""

    features: Features
    time_s: float


def constants(topology: Topology) -> Constants:
    """Return the constants of a fabric: those of the file, otherwise defaults with the rate of its ports."""
    found = topology.cost
    if found is not None:
        return Constants(found.call_us, found.step_us, found.message_us, found.byte_ns)
    rate_bps = topology.link.rate_bps
    byte_ns = _UNLIMITED_BYTE_NS if rate_bps is None else _OVERHEAD * 8e9 / rate_bps
    return Constants(CALL_US, STEP_US, MESSAGE_US, byte_ns)


def features(schedule: Schedule, fabric: Fabric, item_bytes: int) -> Features:
    """Return the features of a schedule that has passed `check`, for elements of `item_bytes` bytes."""
    transfers, found = schedule.transfers, report(schedule, fabric)
    ends = np.concatenate([transfers["src"], transfers["dst"]])
    messages = np.bincount(ends, minlength=1)
    return Features(found.steps, int(messages.max()), float(found.busiest * item_bytes))


def fit(samples: Sequence[Sample]) -> Constants:
    """Return the constants with the least sum of squared relative errors, none of them negative.

    Raises InputError for fewer than four samples.
    """
    if len(samples) < 4:
        raise InputError(f"the cost model has four constants; found {len(samples)} measurements")
    rows = [
        (1.0, one.features.steps, one.features.messages, one.features.port_bytes / 1e3) for one in samples
    ]
    times_us = np.array([one.time_s * 1e6 for one in samples])
    found = _least_squares(np.array(rows) / times_us[:, None])
    return Constants(*(float(f"{value:.4g}") for value in found))


def _least_squares(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Minimize |rows x - 1| for x >= 0: the best of the solutions that leave out some of the columns."""
    columns = rows.shape[1]
    best, least = np.zeros(columns), np.inf
    for chosen in range(1, 1 << columns):
        kept = [column for column in range(columns) if chosen >> column & 1]
        part = np.linalg.lstsq(rows[:, kept], np.ones(len(rows)), rcond=None)[0]
        error = float(np.sum((rows[:, kept] @ part - 1) ** 2))
        if part.min() >= 0 and error < least:
            best, least = np.zeros(columns), error
            best[kept] = part
    return best
