# SPDX-License-Identifier: Apache-2.0
"""How long no rank has made progress, and which rank is furthest behind: learned from own work and heartbeats.

Each heartbeat carries the age of the last progress that its sender has made or heard of. So progress of a distant
rank keeps all ranks that wait for it, directly or not, from giving up; and when nothing moves any more, the ages
grow alike on all ranks, and the lowest position has travelled to all of them by the time that they give up.
"""

from __future__ import annotations

from hipsnet.collective.protocol import Position


class Stall:
    """The knowledge of one rank. Times are of one monotonic clock, in seconds."""

    def __init__(self, now_s: float, tolerance_s: float) -> None:
        """Ages that differ by less than `tolerance_s`, the delay of a heartbeat, are of the same progress."""
        self._tolerance_s = tolerance_s
        self._since_s = now_s
        self._behind: Position | None = None

    def progressed(self, now_s: float) -> None:
        """This rank has made progress: what was known of others is of the past."""
        self._since_s = now_s
        self._behind = None

    def heard(self, now_s: float, age_s: float, behind: Position, mine: Position) -> None:
        """A heartbeat has come from a rank that knows of progress `age_s` ago; this rank is at `mine`."""
        at_s = now_s - age_s
        if behind.rank == mine.rank and behind < mine:
            self.progressed(now_s)  # an old position of this rank is on its way: overtake it by a new age
        elif at_s > self._since_s + self._tolerance_s:
            self._since_s, self._behind = at_s, behind
        elif at_s >= self._since_s - self._tolerance_s:
            self._since_s = max(self._since_s, at_s)
            self._behind = min(self._behind or behind, behind)

    def age_s(self, now_s: float) -> float:
        """The time since the last progress of any rank that this one knows of."""
        return now_s - self._since_s

    def behind(self, mine: Position) -> Position:
        """The position furthest behind, of this rank and all that it has heard of."""
        return min(self._behind or mine, mine)
