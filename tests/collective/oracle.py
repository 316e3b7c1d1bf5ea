# SPDX-License-Identifier: Apache-2.0
"""A reference implementation of schedules: the algorithms and the checker are tested against it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.collectives import EVERY
from hipsnet.collective.schedule import COPY, MERGE, REDUCE, Schedule

Vectors = NDArray[Any]
Combine = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


def execute(schedule: Schedule, vectors: Vectors, combine: Combine = np.add) -> Vectors:
    """Execute the schedule on one vector per rank, by definition alone."""
    vectors = vectors.copy()
    step = schedule.transfers["stage"].astype(np.int64) << 16 | schedule.transfers["round"]
    starts = [*np.flatnonzero(np.diff(step, prepend=-1)).tolist(), len(step)]
    for start, stop in pairwise(starts):
        before = vectors.copy()
        merges: dict[int, list[Any]] = {}
        for t in schedule.transfers[start:stop]:
            piece = slice(int(t["offset"]), int(t["offset"] + t["length"]))
            if t["op"] == REDUCE:
                vectors[t["dst"], piece] = combine(vectors[t["dst"], piece], before[t["src"], piece])
            elif t["op"] == COPY:
                vectors[t["dst"], piece] = before[t["src"], piece]
            elif t["op"] == MERGE:
                merges.setdefault(int(t["dst"]), []).append((int(t["src"]), piece))
        for rank, sources in merges.items():
            _merge(vectors[rank], before, rank, sources, combine)
    return vectors


def _merge(
    vector: NDArray[Any], before: Vectors, rank: int, sources: list[tuple[int, slice]], combine: Combine
) -> None:
    """Combine the merged ranges with the rank's own values, in order of rank, the lowest first."""
    started = np.zeros(len(vector), np.bool_)
    touched = np.zeros(len(vector), np.bool_)
    for _, piece in sources:
        touched[piece] = True
    everything = slice(0, len(vector))
    for source, piece in sorted([*sources, (rank, everything)], key=lambda pair: pair[0]):
        here = np.zeros(len(vector), np.bool_)
        here[piece] = True
        here &= touched
        both, first = here & started, here & ~started
        vector[both] = combine(vector[both], before[source, both])
        vector[first] = before[source, first]
        started |= here


def is_right(schedule: Schedule) -> bool:
    """Whether every rank ends with what the collective requires; what a rank does not contribute is NaN."""
    ranks, count = schedule.world_size, schedule.count
    terms = schedule.collective.terms(count, ranks)
    part = np.searchsorted(terms.edges, np.arange(count), side="right") - 1
    contributor, holder = terms.contributor[part], terms.holder[part]
    values = np.random.default_rng(count).integers(0, 1 << 40, (ranks, count)).astype(float)
    rank = np.arange(ranks)[:, None]
    values[(contributor != EVERY) & (contributor != rank)] = np.nan
    expected = np.nansum(values, axis=0)
    result = execute(schedule, values)
    return bool(((result == expected) | ((holder != EVERY) & (holder != rank))).all())
