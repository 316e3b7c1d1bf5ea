# SPDX-License-Identifier: Apache-2.0
"""From a fabric to the picture that a person would show of it."""

from __future__ import annotations

from hipsnet.topology import fattree, layout_grid, layout_layers
from hipsnet.topology.fabric import Fabric
from hipsnet.topology.picture import Picture
from hipsnet.topology.schema import Topology
from hipsnet.units import format_rate


def arrange(topology: Topology, fabric: Fabric) -> Picture:
    """Return the picture: BCube by levels, a torus as a grid, a Fat-Tree as layers."""
    title, subtitle, levels = _title(fabric), _subtitle(topology, fabric), _levels(fabric)
    if fabric.kind == "torus":
        boxes = layout_grid.torus(fabric)
        wires = tuple(layout_grid.wires(fabric, boxes))
        return Picture(title, subtitle, levels, tuple(boxes.values()), wires)
    boxes, regions = (
        (layout_layers.bcube(fabric), ()) if fabric.kind == "bcube" else layout_layers.fat_tree(fabric)
    )
    wires = tuple(layout_layers.wires(fabric, boxes))
    return Picture(title, subtitle, levels, tuple(boxes.values()), wires, regions)


def _title(fabric: Fabric) -> str:
    if fabric.kind == "bcube":
        shape = f"BCube({fabric.dims[0]},{len(fabric.dims)})"
    elif fabric.kind == "torus":
        shape = "Torus " + "\u00d7".join(map(str, fabric.dims))
    else:
        shape = f"Fat-Tree({fattree.ports_per_switch(fabric)})"
    return f"{fabric.name}: {shape}"


def _subtitle(topology: Topology, fabric: Fabric) -> str:
    ports = len(fabric.servers[0].ports)
    words = [f"N = {len(fabric.servers)} servers", f"{ports} port{'s' if ports > 1 else ''} each"]
    if fabric.switches:
        words.append(f"{len(fabric.switches)} switches")
    rate_bps = topology.link.rate_bps
    words.append("rate unlimited" if rate_bps is None else f"{format_rate(rate_bps)} per port")
    return "  \u00b7  ".join(words)


def _levels(fabric: Fabric) -> tuple[str, ...]:
    if fabric.kind == "fattree":
        return ("server\u2013edge", "edge\u2013aggregation", "aggregation\u2013core")
    word = "level" if fabric.kind == "bcube" else "dimension"
    return tuple(f"{word} {level}: {subnet}" for level, subnet in enumerate(fabric.subnets))
