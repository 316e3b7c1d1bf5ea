# SPDX-License-Identifier: Apache-2.0
"""Stall detection on a virtual clock: all ranks blame the same rank, and none while a rank makes progress."""

from __future__ import annotations

import heapq
import random

import pytest

from hipsnet.collective.protocol import Position
from hipsnet.collective.stall import Stall

HEARTBEAT_S, LIMIT_S = 1.0, 20.0


class Ring:
    """Ranks in a ring that send heartbeats to both neighbours, with delays; the test advances their stages."""

    def __init__(self, ranks: int, seed: int) -> None:
        self.chance = random.Random(seed)
        self.stages = [0] * ranks
        self.stalls = [Stall(0.0, HEARTBEAT_S / 2) for _ in range(ranks)]
        self.events: list[tuple[float, int, str, int, tuple[float, Position]]] = []
        self._number = 0
        for rank in range(ranks):
            self.at(self.chance.uniform(0, HEARTBEAT_S), "beat", rank)

    def at(self, when_s: float, what: str, rank: int, heard: tuple[float, Position] | None = None) -> None:
        self._number += 1
        heapq.heappush(self.events, (when_s, self._number, what, rank, heard or (0.0, self.position(rank))))

    def position(self, rank: int) -> Position:
        return Position(1, self.stages[rank], rank)

    def run(self, until_s: float) -> dict[int, tuple[float, int]]:
        """Return when each rank that gave up did so, and which rank it blames."""
        gave_up: dict[int, tuple[float, int]] = {}
        while self.events and self.events[0][0] < until_s:
            now, _, what, rank, (age_s, behind) = heapq.heappop(self.events)
            stall, mine = self.stalls[rank], self.position(rank)
            if what == "advance":
                self.stages[rank] += 1
                stall.progressed(now)
            elif what == "hear":
                stall.heard(now, age_s, behind, mine)
            else:
                for other in ((rank - 1) % len(self.stages), (rank + 1) % len(self.stages)):
                    delay = self.chance.expovariate(1 / 0.01)
                    self.at(now + delay, "hear", other, (stall.age_s(now), stall.behind(mine)))
                self.at(now + HEARTBEAT_S + self.chance.uniform(0, 0.25), "beat", rank)
                if stall.age_s(now) >= LIMIT_S and rank not in gave_up:
                    gave_up[rank] = now, stall.behind(mine).rank
        return gave_up


@pytest.mark.parametrize("seed", range(20))
def test_all_ranks_blame_the_one_that_is_furthest_behind(seed: int) -> None:
    ring = Ring(9, seed)
    last = ring.chance.randrange(9)
    ends = []
    for rank in range(9):
        for _ in range(1 if rank == last else 2):
            ends.append(ring.chance.uniform(0, 5))
            ring.at(ends[-1], "advance", rank)
    gave_up = ring.run(60.0)
    assert {blamed for _, blamed in gave_up.values()} == {last}
    assert len(gave_up) == 9
    for when, _ in gave_up.values():
        assert max(ends) + LIMIT_S <= when < max(ends) + LIMIT_S + 5


@pytest.mark.parametrize("seed", range(20))
def test_slow_progress_of_one_rank_keeps_all_others_waiting(seed: int) -> None:
    ring = Ring(9, seed)
    for number in range(12):
        ring.at(number * 0.7 * LIMIT_S, "advance", 4)
    assert ring.run(11 * 0.7 * LIMIT_S + 0.9 * LIMIT_S) == {}
