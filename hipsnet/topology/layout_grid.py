# SPDX-License-Identifier: Apache-2.0
"""A torus as a grid: dimension 0 to the right, 1 downwards, 2 into the depth, further ones as blocks."""

from __future__ import annotations

from collections.abc import Iterator

from hipsnet.topology.fabric import Fabric, Link, Server
from hipsnet.topology.picture import Box, Point, Wire, text_width

DEPTH = (0.8, 0.56)  # one step into the depth
HEIGHT = 0.36


def torus(fabric: Fabric) -> dict[str, Box]:
    """Put every server at its digits' place, server 0 in the upper left corner."""
    steps = _steps(fabric.dims, fabric.servers[0].name)
    width = 0.28 + text_width(fabric.servers[0].name)
    boxes = {}
    for server in fabric.servers:
        x = sum(digit * step[0] for digit, step in zip(server.digits, steps, strict=True))
        y = sum(digit * step[1] for digit, step in zip(server.digits, steps, strict=True))
        boxes[server.name] = Box(server.name, "server", 0, x, y, width, HEIGHT)
    return boxes


def _steps(dims: tuple[int, ...], name: str) -> list[Point]:
    """Return how far one more in each digit moves a server."""
    deep = dims[2] - 1 if len(dims) > 2 else 0
    across = 0.28 + text_width(name) + 0.62 + DEPTH[0] * deep
    down = HEIGHT + 0.74 + DEPTH[1] * deep
    steps = [(across, 0.0), (0.0, -down), DEPTH][: len(dims)]
    extent = [across * dims[0], down * (dims[1] if len(dims) > 1 else 1)]
    for dimension in range(3, len(dims)):  # 3 to the right again, 4 downwards again, ...
        axis = (dimension + 1) % 2
        step = extent[axis] + 1.1
        extent[axis] = step * dims[dimension]
        steps.append((step, 0.0) if axis == 0 else (0.0, -step))
    return steps


def wires(fabric: Fabric, boxes: dict[str, Box]) -> Iterator[Wire]:
    """Join neighbours by straight lines, and the ends of a ring by an arc beside it."""
    for link in fabric.links:
        a, b = boxes[link.a.node], boxes[link.b.node]
        start, end = (a.x, a.y), (b.x, b.y)
        if _wraps(fabric, link):
            yield Wire(link.a.level, _arc(start, end, link.a.level, len(fabric.dims) > 2))
        else:
            yield Wire(link.a.level, (start, _between(start, end, 1 / 3), _between(start, end, 2 / 3), end))


def _wraps(fabric: Fabric, link: Link) -> bool:
    """Whether a cable closes a ring instead of joining two that stand side by side."""
    lower = fabric.nodes[link.a.node]
    return isinstance(lower, Server) and lower.digits[link.a.level] == fabric.dims[link.a.level] - 1


def _arc(start: Point, end: Point, dimension: int, deep: bool) -> tuple[Point, Point, Point, Point]:
    """Leave the last server outwards and come into the first from outside, beside those in between."""
    dx, dy = start[0] - end[0], start[1] - end[1]
    length = (dx * dx + dy * dy) ** 0.5
    out = (dx / length, dy / length)
    aside = (0.37, 0.53, 0.4)[min(dimension, 2)] if deep else 0.66  # in between the rows of a deep grid
    reach = 1.6 * aside
    normal = (out[1], -out[0]) if dimension != 1 else (-out[1], out[0])
    shift = (normal[0] * aside, normal[1] * aside)
    first = (start[0] + reach * out[0] + shift[0], start[1] + reach * out[1] + shift[1])
    second = (end[0] - reach * out[0] + shift[0], end[1] - reach * out[1] + shift[1])
    return start, first, second, end


def _between(a: Point, b: Point, share: float) -> Point:
    return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share
