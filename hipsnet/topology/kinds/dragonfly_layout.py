# SPDX-License-Identifier: Apache-2.0
"""A Dragonfly as a ring of groups: servers outside, routers inside, global cables across the ring."""

from __future__ import annotations

import math

from hipsnet.topology.fabric import Fabric, Link
from hipsnet.topology.layout_layers import MANY, SWITCH_HEIGHT
from hipsnet.topology.picture import Box, Drawing, Point, Region, Wire, text_width

SERVER_GAP, ROUTER_GAP, GROUP_GAP = 0.08, 0.34, 0.5
RISE = 0.95  # from the servers to the routers
LABEL, MARGIN = 0.38, 0.14  # below and above the parts of a group
ARC = 0.34  # height of the cable between neighbours in a row of routers


def draw(fabric: Fabric, groups: int, routers: int, servers: int) -> Drawing:
    """Return the picture; digits of a server are its number at the router, the router, the group."""
    upright = len(fabric.servers) > MANY
    long, short = 0.26 + text_width(fabric.servers[-1].name), 0.26 if upright else 0.34
    width, height = (short, long) if upright else (long, short)
    name = 0.3 + text_width(fabric.switches[-1].name)
    share = max(servers * (width + SERVER_GAP), name) + ROUTER_GAP
    arcs = ARC * max(1, routers - 1) ** 0.7
    reach = RISE + SWITCH_HEIGHT / 2 + arcs  # from the middle of the servers inwards
    middle = (reach - height / 2) / 2  # from the middle of the servers to that of the group
    size = (routers * share + 0.2, height / 2 + reach + LABEL + MARGIN)
    centres = _ring(groups, size)
    boxes: dict[str, Box] = {}
    for server in fabric.servers:
        place, router, group = server.digits
        x = _router_x(centres[group][0], router, routers, share)
        x += (place - (servers - 1) / 2) * (width + SERVER_GAP)
        y = centres[group][1] - _inward(centres[group]) * middle
        boxes[server.name] = Box(server.name, "server", 0, x, y, width, height, upright)
    for index, switch in enumerate(fabric.switches):
        centre, router = centres[index // routers], index % routers
        x, y = _router_x(centre[0], router, routers, share), centre[1] + _inward(centre) * (RISE - middle)
        boxes[switch.name] = Box(switch.name, "switch", switch.level, x, y, name, SWITCH_HEIGHT)
    wires = tuple(_wire(link, boxes, share) for link in fabric.links)
    regions = tuple(
        Region(f"group {group}", x - size[0] / 2, y - (height / 2 + reach) / 2 - LABEL, size[0], size[1])
        for group, (x, y) in enumerate(centres)
    )
    return Drawing(boxes, wires, regions)


def _inward(centre: Point) -> int:
    """Return whether routers stand above (1) or below (-1) their servers: nearer to the middle of the ring."""
    return -1 if centre[1] > 1e-9 else 1


def _router_x(centre: float, router: int, routers: int, share: float) -> float:
    return centre + (router - (routers - 1) / 2) * share


def _ring(groups: int, size: Point) -> list[Point]:
    """Return the groups' places on the smallest ellipse on which no two overlap, group 0 at the top."""
    wide, high = size[0] + GROUP_GAP, size[1] + GROUP_GAP
    turns = [2 * math.pi * group / groups for group in range(groups)]
    scale = 0.5
    while True:
        places = [(scale * wide * math.sin(turn), scale * high * math.cos(turn)) for turn in turns]
        apart = (
            abs(a[0] - b[0]) >= wide or abs(a[1] - b[1]) >= high
            for index, a in enumerate(places)
            for b in places[:index]
        )
        if all(apart):
            return places
        scale *= 1.1


def _wire(link: Link, boxes: dict[str, Box], share: float) -> Wire:
    """Straight to a server, an arc along the routers of a group, a curve towards the middle between groups."""
    a, b = boxes[link.a.node], boxes[link.b.node]
    side = 1 if b.y > a.y else -1
    if link.a.level == 0:
        start = (a.x, a.y + side * a.height / 2)
        end = (b.x + 0.5 * (a.x - b.x) * b.width / share, b.y - side * b.height / 2)
        bend = 0.5 * (end[1] - start[1])
        return Wire(0, (start, (start[0], start[1] + bend), (end[0], end[1] - bend), end))
    if link.a.level == 1:
        side = _inward((a.x, a.y))
        top = side * 4 / 3 * ARC * (abs(b.x - a.x) / share) ** 0.7
        start, end = (a.x, a.y + side * a.height / 2), (b.x, b.y + side * b.height / 2)
        return Wire(1, (start, (start[0], start[1] + top), (end[0], end[1] + top), end))
    start, end = (a.x, a.y), (b.x, b.y)
    return Wire(link.a.level, (start, _inwards(start), _inwards(end), end))


def _inwards(point: Point) -> Point:
    return 0.35 * point[0], 0.35 * point[1]
