# SPDX-License-Identifier: Apache-2.0
"""The receiver's port of each transfer, and all ports of a rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.topology import Fabric, Topology, build
from hipsnet.transport.xdp.options import NodePort, NodePorts
from hipsnet.units import parse_size

XOFF, XON = "4MiB", "2MiB"
"""Default thresholds of a port's receive buffer (8 MiB), if the topology's pfc section does not set them."""


def receiver_ports(fabric: Fabric, transfers: NDArray[Any]) -> NDArray[np.int64]:
    """Return the receiver's port index of each transfer: an int64 array of length len(transfers).

    All servers of a fabric number their ports in the same way. The same rule selects the address for ranks
    that are not neighbours; the fabric's routes lead to it.
    """
    ports: NDArray[np.int64] = np.array(fabric.shape.far_ports)[transfers["level"]]
    return ports


def node_ports(topology: Topology, rank: int) -> NodePorts:
    """Return the ports of a rank's node, for a transport that opens its own sockets on them."""
    fabric = build(topology)
    server = fabric.servers[rank]
    pfc = topology.pfc
    watchdog = pfc.watchdog if pfc else None
    return NodePorts(
        fabric=fabric.name,
        node=server.name,
        ports=tuple(NodePort(port.index, str(port.address.ip)) for port in server.ports if port.address),
        rate_bps=topology.link.rate_bps or 0,
        delay_ns=topology.link.delay_us * 1000,
        xoff_bytes=parse_size(pfc.xoff or XOFF) if pfc else 0,
        xon_bytes=parse_size(pfc.xon or XON) if pfc else 0,
        watchdog=(watchdog.detect_ms, watchdog.restore_ms, watchdog.action) if watchdog else None,
        ecn=topology.roce.ecn.enabled,
    )
