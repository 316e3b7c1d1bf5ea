# SPDX-License-Identifier: Apache-2.0
"""Count the differences between the kernel and the topology file periodically."""

from __future__ import annotations

from threading import Event

from hipsnet.errors import HipsnetError
from hipsnet.topology import Fabric, Topology
from orchestrator.provision import inspection

_EVERY_S = 30.0


class Drift:
    """The drift that `inspect` counts, of the lab or of the server `node` on this machine."""

    def __init__(self, topology: Topology, fabric: Fabric, node: str | None) -> None:
        self._topology, self._fabric, self._node = topology, fabric, node
        self._found: int | None = None

    def found(self) -> int | None:
        """The number of differences at the last inspection; None before the first."""
        return self._found

    def watch(self, ended: Event) -> None:
        """Inspect periodically until `ended` is set."""
        self._inspect()
        while not ended.wait(_EVERY_S):
            self._inspect()

    def _inspect(self) -> None:
        try:
            if self._node is None:
                self._found = inspection.inspect(self._topology, self._fabric).drift
            else:
                self._found = inspection.inspect_host(self._topology, self._fabric, self._node).drift
        except HipsnetError:  # the fabric is being changed or was removed: unknown for the moment
            self._found = None
