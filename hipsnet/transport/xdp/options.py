# SPDX-License-Identifier: Apache-2.0
"""What the transport over AF_XDP has to know of its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class NodePort(NamedTuple):
    """A port of this node: its number, and the address by which its interface is found."""

    number: int
    address: str


@dataclass(frozen=True)
class NodePorts:
    """All ports of a node: what is for it may come in by any of them.

    `fabric` and `node` are the names under which its maps are pinned; `rate_bps` is the cables' (0: no limit),
    `delay_ns` what each of them adds. A port whose receive buffer holds more than `xoff_bytes` pauses its peer's
    lossless priority, until `xon_bytes` are left; 0 is never. `watchdog` is (detect_ms, restore_ms, action) of
    the PFC watchdog. `ecn` tells that switches mark what is queued in them: senders honour it, and slow down.
    """

    fabric: str
    node: str
    ports: tuple[NodePort, ...]
    rate_bps: int = 0
    delay_ns: int = 0
    xoff_bytes: int = 0
    xon_bytes: int = 0
    watchdog: tuple[int, int, str] | None = None
    ecn: bool = False
