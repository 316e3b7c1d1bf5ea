# SPDX-License-Identifier: Apache-2.0
"""Looking from time to time in how many things the kernel and the topology file differ."""

from __future__ import annotations

from threading import Event

from hipsnet.errors import HipsnetError
from hipsnet.topology import Fabric, Topology
from orchestrator.provision import inspection

_EVERY_S = 30.0


class Drift:
    """What `inspect` counts as drift, of the lab or of the server that this machine plays."""

    def __init__(self, topology: Topology, fabric: Fabric, node: str | None) -> None:
        self._topology, self._fabric, self._node = topology, fabric, node
        self._found: int | None = None

    def found(self) -> int | None:
        """How many differences there were the last time; None before the first."""
        return self._found

    def watch(self, ended: Event) -> None:
        """Look again and again, until it is ended."""
        self._look()
        while not ended.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        try:
            if self._node is None:
                self._found = inspection.inspect(self._topology, self._fabric).drift
            else:
                self._found = inspection.inspect_host(self._topology, self._fabric, self._node).drift
        except HipsnetError:  # it is being changed, or gone: not known for the moment
            self._found = None
