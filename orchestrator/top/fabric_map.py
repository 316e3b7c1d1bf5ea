# SPDX-License-Identifier: Apache-2.0
"""The fabric as a plan of text: where every node stands, and which signs of which ports are beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from hipsnet.topology import Fabric, Port, Server
from orchestrator.telemetry.ports import WatchedPorts

_WIDTH = 78
_LAYERS = {2: "core", 1: "aggregation", 0: "edge"}


class Spot(NamedTuple):
    """A piece of a line: text alone, or a name or a sign of ports: those that may be stopped, or may stop."""

    text: str
    stopped: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()
    is_sign: bool = False


Plan = tuple[tuple[Spot, ...], ...]


def plan(ports: WatchedPorts) -> Plan:
    """The lines: BCube by levels, a torus as a grid, a Fat-Tree as layers."""
    fabric = ports.fabric
    if fabric.kind == "bcube":
        lines = _bcube(ports)
    elif fabric.kind == "torus":
        lines = _torus(ports)
    else:
        lines = _fat_tree(ports)
    return tuple(tuple(line) for line in lines)


def legend(fabric: Fabric) -> str:
    """What the two signs behind a name mean."""
    if fabric.kind == "torus":
        return "between two: the first is stopped, the second is stopped"
    return "behind a name: is stopped, stops"


def _title(text: str) -> list[Spot]:
    return [Spot(text)]


def _bcube(ports: WatchedPorts) -> Iterator[list[Spot]]:
    """A line for each switch with its servers, level by level."""
    fabric = ports.fabric
    for level in range(len(fabric.dims)):
        yield _title(f"level {level}")
        for switch in fabric.switches:
            if switch.level == level:
                ends = [fabric.peer(port) for port in switch.ports]
                cells = [_cell(ports, end.node, [end]) for end in ends]
                label = _cell(ports, switch.name, switch.ports)[:1]
                yield [*label, Spot("  "), *_spaced(cells)]


def _fat_tree(ports: WatchedPorts) -> Iterator[list[Spot]]:
    """Core, aggregation and edge switches, then the servers."""
    fabric = ports.fabric
    for layer, name in _LAYERS.items():
        yield _title(name)
        found = [switch for switch in fabric.switches if switch.level == layer]
        yield from _wrapped([_cell(ports, switch.name, switch.ports) for switch in found])
    yield _title("servers")
    yield from _wrapped([_cell(ports, server.name, server.ports) for server in fabric.servers])


def _torus(ports: WatchedPorts) -> Iterator[list[Spot]]:
    """The plane of the first two dimensions as a grid, for each place in the others; then their rings."""
    fabric = ports.fabric
    dims = fabric.dims
    servers = {server.digits: server for server in fabric.servers}
    cables = _cables(ports)
    for place in product(*(range(side) for side in dims[2:])):
        if len(dims) > 2:
            yield _title("at " + ", ".join(f"{2 + at}: {digit}" for at, digit in enumerate(place)))
        for down in range(dims[1] if len(dims) > 1 else 1):
            row = [servers[(across, down, *place)[: len(dims)]] for across in range(dims[0])]
            yield _ring(cables, row, 0)
            if len(dims) > 1:
                below = [servers[(across, (down + 1) % dims[1], *place)] for across in range(dims[0])]
                yield _between(cables, row, below, 1)
    for dimension in range(2, len(dims)):
        yield _title(f"dimension {dimension}")
        for ring in _rings(fabric, servers, dimension):
            yield _ring(cables, ring, dimension)


def _rings(fabric: Fabric, servers: dict[tuple[int, ...], Server], dimension: int) -> Iterator[list[Server]]:
    for server in fabric.servers:
        if server.digits[dimension] == 0:
            digits = list(server.digits)
            ring = []
            for digit in range(fabric.dims[dimension]):
                digits[dimension] = digit
                ring.append(servers[tuple(digits)])
            yield ring


def _cables(ports: WatchedPorts) -> dict[tuple[str, str, int], tuple[int, int]]:
    """The numbers of a cable's ports by the names of its ends and its dimension."""
    found = {}
    for link in ports.fabric.links:
        pair = tuple(ports.numbers.get(f"{end.node}.{end.name}", -1) for end in (link.a, link.b))
        found[link.a.node, link.b.node, link.a.level] = (pair[0], pair[1])
    for (a, b, level), (first, second) in list(found.items()):
        found.setdefault((b, a, level), (second, first))
    return found


def _ring(
    cables: dict[tuple[str, str, int], tuple[int, int]], ring: Sequence[Server], dimension: int
) -> list[Spot]:
    """Servers side by side with the signs of the cables in between, and of that back to the first."""
    line = []
    for server, after in zip(ring, [*ring[1:], ring[0]], strict=True):
        line.append(Spot(server.name))
        if after is not ring[0] or len(ring) > 2:
            line += [Spot(" "), *_signs(cables.get((server.name, after.name, dimension))), Spot(" ")]
    return [*line, Spot("↩" if len(ring) > 2 else "")]


def _between(
    cables: dict[tuple[str, str, int], tuple[int, int]],
    row: Sequence[Server],
    below: Sequence[Server],
    dimension: int,
) -> list[Spot]:
    line = []
    for server, under in zip(row, below, strict=True):
        signs = _signs(cables.get((server.name, under.name, dimension)))
        line += [*signs, Spot(" " * (len(server.name) + 4 - len(signs)))]
    return line


def _signs(cable: tuple[int, int] | None) -> list[Spot]:
    if cable is None:
        return [Spot(" "), Spot(" ")]
    return [Spot("", stopped=(end,), is_sign=True) if end >= 0 else Spot(" ") for end in cable]


def _cell(ports: WatchedPorts, name: str, ends: Sequence[Port]) -> list[Spot]:
    """A node's name with the worst that happens to these ports of it."""
    numbers = tuple(
        number for end in ends if (number := ports.numbers.get(f"{end.node}.{end.name}")) is not None
    )
    if not numbers:
        return [Spot(name), Spot("  ")]
    return [
        Spot(name, stopped=numbers, stops=numbers),
        Spot("", stopped=numbers, is_sign=True),
        Spot("", stops=numbers, is_sign=True),
    ]


def _spaced(cells: Sequence[Sequence[Spot]]) -> list[Spot]:
    return [spot for cell in cells for spot in (*cell, Spot(" "))]


def _wrapped(cells: Sequence[Sequence[Spot]]) -> Iterator[list[Spot]]:
    width = max((len(cell[0].text) + 3 for cell in cells), default=1)
    each = max(1, _WIDTH // width)
    for first in range(0, len(cells), each):
        yield _spaced(cells[first : first + each])
