# SPDX-License-Identifier: Apache-2.0
"""Segments that arrive before their turn are applied once, in order, however long the chain is."""

from __future__ import annotations

import numpy as np
import pytest

from hipsnet.collective.progress import Progress
from hipsnet.collective.segments import Plan, Segment

LENGTH = 20_000  # far more than the interpreter's recursion limit


def chain(length: int) -> Plan:
    """Receives of one connection, each of which waits for the one before."""
    segments = tuple(Segment(i, 0, i, 0, 1, False, True, 0, 0) for i in range(length))
    waits = tuple(int(i > 0) for i in range(length))
    releases = tuple((i + 1,) if i + 1 < length else () for i in range(length))
    return Plan(1, 1, segments, waits, releases, ((),), (segments,))


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_long_chain_of_receives_is_applied_in_order(seed: int | None) -> None:
    plan, applied = chain(LENGTH), []
    progress = Progress(plan, lambda segment: applied.append(segment.index))
    order = np.arange(LENGTH)[::-1] if seed is None else np.random.default_rng(seed).permutation(LENGTH)
    for index in order:
        progress.arrived(plan.segments[index])
    assert applied == list(range(LENGTH))
    assert progress.left == 0
