# SPDX-License-Identifier: Apache-2.0
"""The node's ports and their parameters, as the transport over AF_XDP needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class NodePort(NamedTuple):
    """A port of this node: its number, and the address that identifies its interface."""

    number: int
    address: str


@dataclass(frozen=True)
class NodePorts:
    """All ports of a node: frames for the node may arrive by any of them.

    `fabric` and `node` are the names under which its maps are pinned. `rate_bps` is the rate of the cables (0: no
    limit), `delay_ns` the delay of each. A port whose receive buffer holds more than `xoff_bytes` pauses its
    peer's lossless priority until at most `xon_bytes` are left; 0: never. `watchdog` is (detect_ms, restore_ms,
    action) of the PFC watchdog. `ecn` enables congestion control by the switches' ECN marks.
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
