# SPDX-License-Identifier: Apache-2.0
"""A torus as a grid, drawn and in text: dimension 0 to the right, 1 downwards, 2 into the depth or as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from hipsnet.topology.diagram import Line, Spot, heading, sign
from hipsnet.topology.fabric import Fabric, Link, Port, Server
from hipsnet.topology.picture import Box, Point, Wire, text_width

DEPTH = (0.8, 0.56)  # one step into the depth
HEIGHT = 0.36


def boxes(fabric: Fabric) -> dict[str, Box]:
    """Put every server at its digits' place, server 0 in the upper left corner."""
    steps = _steps(fabric.dims, fabric.servers[0].name)
    width = 0.28 + text_width(fabric.servers[0].name)
    found = {}
    for server in fabric.servers:
        x = sum(digit * step[0] for digit, step in zip(server.digits, steps, strict=True))
        y = sum(digit * step[1] for digit, step in zip(server.digits, steps, strict=True))
        found[server.name] = Box(server.name, "server", 0, x, y, width, HEIGHT)
    return found


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


Cables = dict[tuple[str, str, int], tuple[Port, Port]]
"""A cable's ports by the names of its ends and its dimension."""


def diagram(fabric: Fabric) -> Iterator[Line]:
    """Yield the plane of the first two dimensions for each place in the others, then the others' rings."""
    dims, cables = fabric.dims, _cables(fabric)
    servers = {server.digits: server for server in fabric.servers}
    for place in product(*(range(size) for size in dims[2:])):
        if len(dims) > 2:
            yield heading("at " + ", ".join(f"{2 + at}: {digit}" for at, digit in enumerate(place)))
        for down in range(dims[1] if len(dims) > 1 else 1):
            row = [servers[(across, down, *place)[: len(dims)]] for across in range(dims[0])]
            yield _ring(cables, row, 0)
            if len(dims) > 1:
                below = [servers[(across, (down + 1) % dims[1], *place)] for across in range(dims[0])]
                yield _down(cables, row, below, 1)
    for dimension in range(2, len(dims)):
        yield heading(f"dimension {dimension}")
        for ring in _rings(fabric, servers, dimension):
            yield _ring(cables, ring, dimension)


def _rings(fabric: Fabric, servers: dict[tuple[int, ...], Server], dimension: int) -> Iterator[list[Server]]:
    for server in fabric.servers:
        if server.digits[dimension] == 0:
            before, after = server.digits[:dimension], server.digits[dimension + 1 :]
            yield [servers[(*before, digit, *after)] for digit in range(fabric.dims[dimension])]


def _cables(fabric: Fabric) -> Cables:
    found = {(link.a.node, link.b.node, link.a.level): (link.a, link.b) for link in fabric.links}
    for (a, b, level), (first, second) in list(found.items()):
        found.setdefault((b, a, level), (second, first))
    return found


def _ring(cables: Cables, ring: Sequence[Server], dimension: int) -> Line:
    """Return servers side by side with the signs of the cables in between, and of that back to the first."""
    line = []
    for server, after in zip(ring, [*ring[1:], ring[0]], strict=True):
        line.append(Spot(server.name))
        if after is not ring[0] or len(ring) > 2:
            line += [Spot(" "), *_signs(cables.get((server.name, after.name, dimension))), Spot(" ")]
    return [*line, Spot("↩" if len(ring) > 2 else "")]


def _down(cables: Cables, row: Sequence[Server], below: Sequence[Server], dimension: int) -> Line:
    line = []
    for server, under in zip(row, below, strict=True):
        signs = _signs(cables.get((server.name, under.name, dimension)))
        line += [*signs, Spot(" " * (len(server.name) + 4 - len(signs)))]
    return line


def _signs(cable: tuple[Port, Port] | None) -> Line:
    return [Spot(" "), Spot(" ")] if cable is None else [sign(end) for end in cable]
