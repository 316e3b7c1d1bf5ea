# SPDX-License-Identifier: Apache-2.0
"""The picture of a fabric."""

from __future__ import annotations

from hipsnet.topology.fabric import Fabric
from hipsnet.topology.picture import Picture
from hipsnet.topology.schema import Topology
from hipsnet.units import format_rate


def arrange(topology: Topology, fabric: Fabric) -> Picture:
    """Return the picture of a fabric, with a title and the name and prefix of every level of cables."""
    drawing = fabric.shape.draw(fabric)
    levels = zip(fabric.shape.cable_levels, fabric.subnets, strict=True)
    return Picture(
        title=f"{fabric.name}: {fabric.shape.title}",
        subtitle=_subtitle(topology, fabric),
        levels=tuple(f"{name}: {subnet}" for name, subnet in levels),
        boxes=tuple(drawing.boxes.values()),
        wires=drawing.wires,
        regions=drawing.regions,
    )


def _subtitle(topology: Topology, fabric: Fabric) -> str:
    ports = len(fabric.servers[0].ports)
    words = [f"N = {len(fabric.servers)} servers", f"{ports} port{'s' if ports > 1 else ''} each"]
    if fabric.switches:
        words.append(f"{len(fabric.switches)} switches")
    rate_bps = topology.link.rate_bps
    words.append("rate unlimited" if rate_bps is None else f"{format_rate(rate_bps)} per port")
    return "  \u00b7  ".join(words)
