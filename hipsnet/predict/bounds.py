# SPDX-License-Identifier: Apache-2.0
"""What a prediction may take, estimated before anything is built."""

from __future__ import annotations

from hipsnet.errors import InputError

SCHEDULE_BYTES = 2 << 30
"""Memory for a schedule that has to be built."""

ROUTED_FLOWS = 1 << 18
"""Flows whose routes are followed node by node: about 20 us each."""

ROUTED_NODES = 2048
"""Servers and switches whose route tables are read: 5 to 10 ms each."""


class TooLarge(InputError):
    """A prediction would take too much memory or time; nothing was computed."""


def require(found: int, allowed: int, what: str, advice: str = "use fewer servers") -> None:
    """Raise TooLarge if `found` of `what` are more than `allowed`."""
    if found > allowed:
        raise TooLarge(f"{found:,} {what}; allowed: {allowed:,}; {advice}")
