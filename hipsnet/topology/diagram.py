# SPDX-License-Identifier: Apache-2.0
"""A fabric as lines of text: names of nodes, and beside them signs that show the state of ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hipsnet.topology.fabric import Fabric, Port, Server, Switch

WIDTH = 78


@dataclass(frozen=True)
class Spot:
    """A piece of a line: text, or a sign (one character) for the state of some ports.

    `stopped` are the ports whose being stopped it shows, `stops` those whose stopping of others it shows.
    """

    text: str
    stopped: tuple[Port, ...] = ()
    stops: tuple[Port, ...] = ()
    is_sign: bool = False


Line = list[Spot]


def heading(text: str) -> Line:
    """Return a line of plain text."""
    return [Spot(text)]


def cell(name: str, ports: Iterable[Port]) -> Line:
    """Return a node's name, in the colour of the worst of these ports, and their two signs."""
    ports = tuple(ports)
    return [
        Spot(name, ports, ports),
        Spot("", stopped=ports, is_sign=True),
        Spot("", stops=ports, is_sign=True),
    ]


def label(switch: Switch) -> Line:
    """Return a switch's name, in the colour of its ports."""
    return [Spot(switch.name, switch.ports, switch.ports)]


def sign(port: Port) -> Spot:
    """Return the sign that shows whether a port is stopped."""
    return Spot("", stopped=(port,), is_sign=True)


def spaced(cells: Iterable[Line]) -> Line:
    """Return the cells in one line, divided by blanks."""
    return [spot for cell in cells for spot in (*cell, Spot(" "))]


def wrapped(cells: Sequence[Line], indent: int = 0) -> Iterator[Line]:
    """Yield lines of as many cells as fit into the width."""
    width = max((len(cell[0].text) + 3 for cell in cells), default=1)
    each = max(1, (WIDTH - indent) // width)
    for first in range(0, len(cells), each):
        yield [*([Spot(" " * indent)] if indent else []), *spaced(cells[first : first + each])]


def switch_cells(switches: Iterable[Switch]) -> list[Line]:
    """Return a cell for each switch with all its ports."""
    return [cell(switch.name, switch.ports) for switch in switches]


def server_cells(servers: Iterable[Server]) -> list[Line]:
    """Return a cell for each server with all its ports."""
    return [cell(server.name, server.ports) for server in servers]


def attached(fabric: Fabric, switch: Switch) -> tuple[Server, ...]:
    """Return the servers that a switch has cables to, each once, in order of its ports."""
    nodes = (fabric.nodes[fabric.peer(port).node] for port in switch.ports)
    return tuple(dict.fromkeys(node for node in nodes if isinstance(node, Server)))


def with_servers(fabric: Fabric, switch: Switch) -> Iterator[Line]:
    """Yield a switch with its signs and, behind it, its servers; those that do not fit are below."""
    first = cell(switch.name, switch.ports)
    indent = len(switch.name) + 4
    lines = wrapped(server_cells(attached(fabric, switch)), indent)
    yield [*first, Spot("  "), *next(lines, [Spot("")])[1:]]
    yield from lines
