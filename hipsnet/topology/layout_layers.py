# SPDX-License-Identifier: Apache-2.0
"""Fabrics with switches as rows: servers in one, the switches of each level in another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hipsnet.topology import fattree
from hipsnet.topology.fabric import Fabric, Port, Server, Switch
from hipsnet.topology.picture import Box, Point, Region, Wire, span, text_width

MANY = 27  # more servers than this stand upright, or the row would be too long to read
SWITCH_HEIGHT = 0.34
GAP = 0.16


def bcube(fabric: Fabric) -> dict[str, Box]:
    """Put the servers in a row in order of rank, the switches of level 0 below and the others above."""
    n, levels = fabric.dims[0], len(fabric.dims)
    gaps = [
        GAP * sum(rank % n**digit == 0 for digit in range(1, levels)) for rank in range(len(fabric.servers))
    ]
    boxes = _servers(fabric.servers, gaps)
    left, right = span(boxes.values())
    rise = max(1.35, 0.12 * (right - left))
    for level in range(levels):
        row = [switch for switch in fabric.switches if switch.level == level]
        boxes |= _switches(row, left, right, rise * level if level else -max(0.95, 0.06 * (right - left)))
    return boxes


def fat_tree(fabric: Fabric) -> tuple[dict[str, Box], tuple[Region, ...]]:
    """Stack servers, edge, aggregation and core switches, with the pods side by side."""
    k = fattree.ports_per_switch(fabric)
    half, nics = k // 2, len(fabric.servers[0].ports)
    slot = 0.4 + text_width(fabric.servers[0].name)
    share = max(0.8, -(-half // nics) * slot + 0.15)  # the width that an edge switch and its servers take
    pod_gap = 0.3

    def centre(index: int) -> float:
        return share * index + pod_gap * (index // half)

    boxes: dict[str, Box] = {}
    for edge in range(k * half):
        members = [server for server in fabric.servers if server.rank * nics // half == edge]
        if members:
            row = _servers(members, [0.0] * len(members))
            middle = sum(span(row.values())) / 2
            boxes |= {name: replace(box, x=box.x - middle + centre(edge)) for name, box in row.items()}
    left, right = -share / 2, centre(k * half - 1) + share / 2
    rise = max(1.15, 0.06 * (right - left))
    for level in (0, 1):
        for index, switch in enumerate(switch for switch in fabric.switches if switch.level == level):
            width = min(0.36 + text_width(switch.name), 0.9 * share)
            y = 1.0 + rise * level
            boxes[switch.name] = Box(switch.name, "switch", level, centre(index), y, width, SWITCH_HEIGHT)
    cores = [switch for switch in fabric.switches if switch.level == 2]
    boxes |= _switches(cores, left, right, 1.0 + 2.25 * rise)
    pods = tuple(
        Region(f"pod {pod}", centre(pod * half) - share / 2, -0.56, half * share, rise + 1.86)
        for pod in range(k)
    )
    return boxes, pods


def wires(fabric: Fabric, boxes: dict[str, Box]) -> Iterator[Wire]:
    """Run every cable from the lower node's top to the upper node's bottom, its ports side by side."""
    for link in fabric.links:
        ends = sorted((link.a, link.b), key=lambda port: boxes[port.node].y)
        low, high = (_plug(fabric, boxes, port, up) for port, up in zip(ends, (True, False), strict=True))
        bend = 0.5 * (high[1] - low[1])
        yield Wire(link.a.level, (low, (low[0], low[1] + bend), (high[0], high[1] - bend), high))


def _plug(fabric: Fabric, boxes: dict[str, Box], port: Port, up: bool) -> Point:
    """Return where a cable meets its node: the ports of that side share its edge."""
    box = boxes[port.node]
    side = [
        other.index
        for other in fabric.nodes[port.node].ports
        if (boxes[fabric.peer(other).node].y > box.y) == up
    ]
    share = 0.8 * box.width / len(side)
    x = box.x + share * (side.index(port.index) - (len(side) - 1) / 2)
    return x, box.y + (box.height / 2 if up else -box.height / 2)


def _servers(servers: Sequence[Server], gaps: Sequence[float]) -> dict[str, Box]:
    """Put servers side by side at y = 0; `gaps` is the extra room before each."""
    upright = len(servers) > MANY
    long, short = 0.26 + text_width(servers[0].name), 0.26 if upright else 0.34
    width, height = (short, long) if upright else (long, short)
    boxes, x = {}, 0.0
    for server, gap in zip(servers, gaps, strict=True):
        x += gap
        boxes[server.name] = Box(server.name, "server", 0, x + width / 2, 0, width, height, upright)
        x += width + (0.08 if upright else 0.16)
    return boxes


def _switches(switches: Sequence[Switch], left: float, right: float, y: float) -> dict[str, Box]:
    """Spread switches over a row, each in the middle of an equal share."""
    share = (right - left) / len(switches)
    wanted = 0.36 + text_width(switches[0].name) + 0.03 * len(switches[0].ports)
    upright = wanted > 0.95 * share
    width, height = (min(SWITCH_HEIGHT, 0.9 * share), wanted) if upright else (wanted, SWITCH_HEIGHT)
    return {
        switch.name: Box(
            switch.name, "switch", switch.level, left + (index + 0.5) * share, y, width, height, upright
        )
        for index, switch in enumerate(switches)
    }
