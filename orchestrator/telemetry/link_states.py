# SPDX-License-Identifier: Apache-2.0
"""What the kernel has told of the links that are ports: whether they are there, up, and how much they may queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.telemetry import rtnetlink
from orchestrator.telemetry.ports import NOBODY
from orchestrator.telemetry.reading import Reading
from orchestrator.telemetry.rtnetlink import LinkState

_INDEX_BITS = 20


class LinkStates:
    """In the order of the ports. `interfaces` are, for each node, the numbers of its ports by interface name."""

    def __init__(self, ports: int, interfaces: Sequence[Mapping[str, int]]) -> None:
        self._interfaces = interfaces
        self._links: list[dict[int, LinkState]] = [{} for _ in interfaces]
        self._present, self._up = np.zeros(ports, bool), np.zeros(ports, bool)
        self._epoch = np.zeros(ports, np.int64)
        self.queue_bytes = np.zeros(ports, np.uint64)

    def hear(self, node: int, kind: int, body: memoryview, inode: int) -> None:
        """Take note of a message; `inode` tells the node's namespace from others of its name."""
        found = rtnetlink.parse_link(body) if kind in (rtnetlink.NEW_LINK, rtnetlink.DEL_LINK) else None
        if found is None:
            return
        index, state = found
        self._forget(node, index)
        if kind == rtnetlink.NEW_LINK:
            self._links[node][index] = state
            port = self.port_of(node, index)
            if port != NOBODY:
                self._present[port], self._up[port] = True, state.up
                self.queue_bytes[port] = state.queue_bytes
                self._epoch[port] = index + (inode << _INDEX_BITS)

    def forget(self, node: int) -> None:
        """The node is gone, or may have changed unheard."""
        for index in list(self._links[node]):
            self._forget(node, index)

    def port_of(self, node: int, index: int) -> int:
        """The number of the port that an interface is; NOBODY if it is none."""
        state = self._links[node].get(index)
        return NOBODY if state is None else self._interfaces[node].get(state.name, NOBODY)

    def tell(self, reading: Reading) -> None:
        """Write it down; a port without an interface is none, whatever it counted."""
        reading.present[:] = self._present
        reading.up[:] = self._up
        reading.epoch[:] += self._epoch

    def _forget(self, node: int, index: int) -> None:
        port = self.port_of(node, index)
        self._links[node].pop(index, None)
        if port != NOBODY:
            self._present[port] = self._up[port] = False
            self._epoch[port] = 0
