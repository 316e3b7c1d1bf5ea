# SPDX-License-Identifier: Apache-2.0
"""Detects that no rank makes progress, and which rank is furthest behind, from local work and heartbeats.

Each heartbeat carries the age of the last progress that its sender has made or received. Therefore progress of a
distant rank prevents a timeout on all ranks that wait for it, directly or indirectly. In a stall, the ages grow at
the same rate on all ranks, and the lowest position reaches all of them before the timeout expires.
"""

from __future__ import annotations

from hipsnet.collective.protocol import Position


class Stall:
    """The state of one rank. Times are in seconds of one monotonic clock."""

    def __init__(self, now_s: float, tolerance_s: float) -> None:
        """Ages that differ by less than `tolerance_s`, the delay of a heartbeat, refer to the same progress."""
        self._tolerance_s = tolerance_s
        self._since_s = now_s
        self._behind: Position | None = None

    def progressed(self, now_s: float) -> None:
        """This rank has made progress: forget the reports of other ranks."""
        self._since_s = now_s
        self._behind = None

    def heard(self, now_s: float, age_s: float, behind: Position, mine: Position) -> None:
        """Process a heartbeat that reports progress `age_s` ago; this rank is at `mine`."""
        at_s = now_s - age_s
        if behind.rank == mine.rank and behind < mine:
            self.progressed(
                now_s
            )  # the report contains an old position of this rank: supersede it with a new age
        elif at_s > self._since_s + self._tolerance_s:
            self._since_s, self._behind = at_s, behind
        elif at_s >= self._since_s - self._tolerance_s:
            self._since_s = max(self._since_s, at_s)
            self._behind = min(self._behind or behind, behind)

    def age_s(self, now_s: float) -> float:
        """The time since the last known progress of any rank."""
        return now_s - self._since_s

    def behind(self, mine: Position) -> Position:
        """The lowest of this rank's position and the reported positions."""
        return min(self._behind or mine, mine)
