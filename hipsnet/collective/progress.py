# SPDX-License-Identifier: Apache-2.0
"""The progress of one call: which segments may be sent, and which of those that arrived may be applied."""

from __future__ import annotations

from collections.abc import Callable

from hipsnet.collective.segments import Plan, Segment


class Progress:
    """Counts the open dependencies of each segment; calls `apply` for a received segment that has none."""

    def __init__(self, plan: Plan, apply: Callable[[Segment], None]) -> None:
        self._plan = plan
        self._apply = apply
        self._waits = list(plan.waits)
        self._arrived_early = bytearray(len(plan.segments))
        self.left = len(plan.segments)

    def may_send(self, segment: Segment) -> bool:
        return not self._waits[segment.index]

    def sent(self, segment: Segment) -> None:
        """The segment has been sent: its memory may change."""
        self._release(segment)

    def arrived(self, segment: Segment) -> None:
        """The segment has been received: apply it now, or when its dependencies are complete."""
        if self._waits[segment.index]:
            self._arrived_early[segment.index] = 1
        else:
            self._apply(segment)
            self._release(segment)

    def _release(self, segment: Segment) -> None:
        """Complete the segment and apply the received segments it releases; iterative, as chains are long."""
        waits = self._waits
        done = [segment]
        while done:
            self.left -= 1
            for index in self._plan.releases[done.pop().index]:
                waits[index] -= 1
                if not waits[index] and self._arrived_early[index]:
                    following = self._plan.segments[index]
                    self._apply(following)
                    done.append(following)
