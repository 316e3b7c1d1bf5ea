# SPDX-License-Identifier: Apache-2.0
"""How far a plan has come: which segments may be sent, and which of those that arrived may be applied."""

from __future__ import annotations

from collections.abc import Callable

from hipsnet.collective.plan import Plan, Segment


class Progress:
    """Counts down what each segment waits for; calls `apply` for a receive that is here and waits for nothing."""

    def __init__(self, plan: Plan, apply: Callable[[Segment], None]) -> None:
        self._plan = plan
        self._apply = apply
        self._waits = list(plan.waits)
        self._here = bytearray(len(plan.segments))
        self.left = len(plan.segments)

    def may_send(self, segment: Segment) -> bool:
        return not self._waits[segment.index]

    def sent(self, segment: Segment) -> None:
        """The memory of a send may change again."""
        self._release(segment)

    def arrived(self, segment: Segment) -> None:
        """The bytes of a receive are here; it is applied now or once its turn has come."""
        if self._waits[segment.index]:
            self._here[segment.index] = 1
        else:
            self._finish(segment)

    def _finish(self, segment: Segment) -> None:
        self._apply(segment)
        self._release(segment)

    def _release(self, segment: Segment) -> None:
        self.left -= 1
        waits = self._waits
        for index in self._plan.releases[segment.index]:
            waits[index] -= 1
            if not waits[index] and self._here[index]:
                self._finish(self._plan.segments[index])
