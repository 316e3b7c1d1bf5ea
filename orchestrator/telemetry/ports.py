# SPDX-License-Identifier: Apache-2.0
"""The watched ports, in a fixed order; everywhere else a port is its index there."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from hipsnet.topology import Fabric, Port, Server, Topology
from orchestrator.provision import hosts

NO_PORT = -1


@dataclass(frozen=True)
class WatchedPort:
    """One port; `interface` is its name in the kernel, `peer_name` the port at the other end of the cable."""

    node: str
    index: int
    name: str
    interface: str
    level: int
    role: Literal["server", "switch"]
    peer_name: str
    rate_bps: int | None


@dataclass(frozen=True)
class WatchedPorts:
    """All ports; those of a node are adjacent."""

    fabric: Fabric
    ports: tuple[WatchedPort, ...]
    lossless: tuple[int, ...] = ()
    in_lab: bool = True
    numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", {port.name: number for number, port in enumerate(self.ports)})

    def __len__(self) -> int:
        return len(self.ports)

    @cached_property
    def peers(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The index of each port's other end; NO_PORT if it is not watched."""
        return np.array([self.numbers.get(port.peer_name, NO_PORT) for port in self.ports], np.int64)

    @cached_property
    def nodes(self) -> dict[str, slice]:
        """The ports of each node."""
        found: dict[str, slice] = {}
        for number, port in enumerate(self.ports):
            first = found.get(port.node, slice(number, number)).start
            found[port.node] = slice(first, number + 1)
        return found


def watch_lab(topology: Topology, fabric: Fabric) -> WatchedPorts:
    """Every port of a lab."""
    ports = [
        _watched(topology, fabric, port, port.name) for node in fabric.nodes.values() for port in node.ports
    ]
    return WatchedPorts(fabric, tuple(ports), _lossless(topology))


def watch_host(topology: Topology, fabric: Fabric, node: str) -> WatchedPorts:
    """The ports of this machine as server `node`. Raises what `hosts.host_config` raises."""
    config = hosts.host_config(topology, fabric, node)
    names = {link.port or 0: link.name for link in config.ports}
    ports = [_watched(topology, fabric, port, names[port.index]) for port in fabric.nodes[config.name].ports]
    return WatchedPorts(fabric, tuple(ports), _lossless(topology), in_lab=False)


def _watched(topology: Topology, fabric: Fabric, port: Port, interface: str) -> WatchedPort:
    peer = fabric.peer(port)
    return WatchedPort(
        node=port.node,
        index=port.index,
        name=f"{port.node}.{port.name}",
        interface=interface,
        level=port.level,
        role="server" if isinstance(fabric.nodes[port.node], Server) else "switch",
        peer_name=f"{peer.node}.{peer.name}",
        rate_bps=topology.link.rate_bps,
    )


def _lossless(topology: Topology) -> tuple[int, ...]:
    return tuple(sorted(topology.pfc.priorities)) if topology.pfc else ()
