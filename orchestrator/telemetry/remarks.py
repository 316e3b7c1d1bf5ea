# SPDX-License-Identifier: Apache-2.0
"""Counters that are there and cannot be read: that is said once, not with every look."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from orchestrator.telemetry.events import Event
from orchestrator.telemetry.reading import Reading


class Remarks:
    """Knows what was said. What is mended and comes again is said again."""

    def __init__(self) -> None:
        self._said: frozenset[tuple[str, str]] = frozenset()

    def new(self, reading: Reading) -> Iterator[Event]:
        """What this reading has to say for the first time; what ails many nodes alike is said together."""
        fresh, self._said = reading.remarks - self._said, frozenset(reading.remarks)
        ailing: dict[str, list[str]] = {}
        for node, text in sorted(fresh):
            ailing.setdefault(text, []).append(node)
        for text, nodes in ailing.items():
            others = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            yield Event("unreadable", nodes[0] + others, text)

    def warn(self, reading: Reading) -> None:
        """Say it on standard error."""
        for event in self.new(reading):
            print(warning(event), file=sys.stderr)


def warning(event: Event) -> str:
    """The same as a line of its own."""
    return f"hipsnet: {event.port}: {event.detail}"
