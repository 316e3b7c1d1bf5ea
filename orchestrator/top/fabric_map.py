# SPDX-License-Identifier: Apache-2.0
"""The fabric's text map with the numbers of the watched ports in place of the ports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hipsnet.topology import Port, diagram
from orchestrator.telemetry.ports import WatchedPorts


class Spot(NamedTuple):
    """A piece of a line: plain text, or the name or sign of ports, as paused ports or as pausing ones."""

    text: str
    stopped: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()
    is_sign: bool = False


Plan = tuple[tuple[Spot, ...], ...]


def plan(ports: WatchedPorts) -> Plan:
    """Return the lines of the map; the sign of ports that are not watched is a blank."""
    lines = ports.fabric.shape.diagram(ports.fabric)
    return tuple(tuple(_numbered(spot, ports.numbers) for spot in line) for line in lines)


def _numbered(spot: diagram.Spot, numbers: dict[str, int]) -> Spot:
    stopped, stops = _watched(spot.stopped, numbers), _watched(spot.stops, numbers)
    if spot.is_sign and not stopped and not stops:
        return Spot(" ")
    return Spot(spot.text, stopped, stops, spot.is_sign)


def _watched(ports: Iterable[Port], numbers: dict[str, int]) -> tuple[int, ...]:
    found = (numbers.get(f"{port.node}.{port.name}") for port in ports)
    return tuple(number for number in found if number is not None)
