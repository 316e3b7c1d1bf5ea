# SPDX-License-Identifier: Apache-2.0
"""Fabrics with switches as rows: servers in one, the switches of each level in another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsnet.topology.fabric import Fabric, Port, Server, Switch
from hipsnet.topology.picture import Box, Point, Wire, text_width

MANY = 27  # more servers than this stand upright, which keeps the row readable
SWITCH_HEIGHT = 0.34
GAP = 0.16


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


def server_row(servers: Sequence[Server], gaps: Sequence[float]) -> dict[str, Box]:
    """Put servers side by side at y = 0; `gaps` is the extra space before each."""
    upright = len(servers) > MANY
    long, short = 0.26 + text_width(servers[0].name), 0.26 if upright else 0.34
    width, height = (short, long) if upright else (long, short)
    boxes, x = {}, 0.0
    for server, gap in zip(servers, gaps, strict=True):
        x += gap
        boxes[server.name] = Box(server.name, "server", 0, x + width / 2, 0, width, height, upright)
        x += width + (0.08 if upright else 0.16)
    return boxes


def switch_row(switches: Sequence[Switch], left: float, right: float, y: float) -> dict[str, Box]:
    """Spread switches over a row, each in the middle of an equal share."""
    share = (right - left) / len(switches)
    needed = 0.36 + text_width(switches[0].name) + 0.03 * len(switches[0].ports)
    upright = needed > 0.95 * share
    width, height = (min(SWITCH_HEIGHT, 0.9 * share), needed) if upright else (needed, SWITCH_HEIGHT)
    return {
        switch.name: Box(
            switch.name, "switch", switch.level, left + (index + 0.5) * share, y, width, height, upright
        )
        for index, switch in enumerate(switches)
    }
