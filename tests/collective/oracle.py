# SPDX-License-Identifier: Apache-2.0
"""A reference executor of schedules: the algorithms and the checker are tested against it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.schedule import REDUCE, Schedule

Vectors = NDArray[np.float64]


def execute(schedule: Schedule, vectors: Vectors) -> Vectors:
    """Execute the schedule on one vector per rank, by definition alone."""
    vectors = vectors.copy()
    steps = sorted({(int(t["stage"]), int(t["round"])) for t in schedule.transfers})
    for stage, turn in steps:
        before = vectors.copy()
        for t in schedule.transfers:
            if (t["stage"], t["round"]) == (stage, turn):
                piece = slice(int(t["offset"]), int(t["offset"] + t["length"]))
                if t["op"] == REDUCE:
                    vectors[t["dst"], piece] += before[t["src"], piece]
                else:
                    vectors[t["dst"], piece] = before[t["src"], piece]
    return vectors


def is_right(schedule: Schedule) -> bool:
    """Whether every rank ends with the sum of all initial vectors."""
    shape = schedule.world_size, schedule.count
    values = np.random.default_rng(schedule.count).integers(0, 1 << 40, shape).astype(float)
    return np.array_equal(execute(schedule, values), np.broadcast_to(values.sum(0), shape))
