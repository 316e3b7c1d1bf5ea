# SPDX-License-Identifier: Apache-2.0
"""ASTRA-sim's network file for its analytical backend (astra-sim/astra-network-analytical)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hipsnet.errors import InputError
from hipsnet.topology import FabricKind


def network(shape: FabricKind, rate_bps: int, latency_s: float) -> str:
    """Return the file: a level of a BCube is a Switch, a dimension of a torus a Ring, a Clos network one Switch.

    Bandwidths are in GB/s of 10^9 bytes, latencies in ns. The congestion-aware backend accepts one dimension only.
    Raises InputError for a fabric that the format cannot describe.
    """
    if shape.hips:
        block, sides = "Ring" if shape.hips.has_rings else "Switch", list(shape.radices)
        blocks = ["FullyConnected" if side == 2 else block for side in sides]
        bandwidth = [rate_bps / 8e9] * len(sides)
    elif shape.is_nonblocking:
        blocks, sides = ["Switch"], [prod(shape.radices)]
        bandwidth = [rate_bps * shape.ports_per_server / 8e9]
    else:
        raise InputError(
            f"astra: {shape.title} cannot be described by dimensions of Ring, FullyConnected and Switch; allowed: "
            "BCube, torus, Fat-Tree, and leaf-spine that is not oversubscribed"
        )
    rows: dict[str, Sequence[object]] = {
        "topology": blocks,
        "npus_count": sides,
        "bandwidth": [f"{value:g}" for value in bandwidth],
        "latency": [f"{latency_s * 1e9:g}"] * len(sides),
    }
    units = {"bandwidth": "  # GB/s", "latency": "  # ns"}
    lines = [f"{key}: [ {', '.join(map(str, row))} ]{units.get(key, '')}" for key, row in rows.items()]
    return "\n".join([f"# {shape.title}", *lines, ""])
