"""Where a transfer arrives: the receiver's port that belongs to the sender's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.topology import Fabric


def receiver_ports(fabric: Fabric, transfers: NDArray[Any]) -> NDArray[np.int64]:
    """The receiver's port index of each transfer.

    On a torus what leaves by a ring's + port arrives at its - port; elsewhere both ends use the same index. For
    ranks that are no neighbours the same rule picks the address, and the fabric's routes find the way to it.
    """
    mirror = _mirror(fabric)
    ports: NDArray[np.int64] = mirror[transfers["level"]]
    return ports


def _mirror(fabric: Fabric) -> NDArray[np.int64]:
    """By port index: the index at the other end. All servers of a fabric number their ports alike."""
    ports = fabric.servers[0].ports
    if fabric.kind != "torus":
        return np.arange(len(ports))
    by_way = {(port.level, port.direction): port.index for port in ports}
    return np.array([by_way[port.level, -port.direction] for port in ports])
