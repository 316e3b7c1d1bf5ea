# SPDX-License-Identifier: Apache-2.0
"""What a shape counts is what its fabric has, and shapes that are proposed fit."""

from __future__ import annotations

from collections import deque
from math import prod

import pytest

from hipsnet.topology import KINDS, Fabric
from tests.collective.shapes import BCUBES, ROUTED, TORUSES, fabric


def farthest(made: Fabric) -> int:
    """Cables between the two servers that are farthest apart, by breadth-first search."""
    neighbours: dict[str, list[str]] = {name: [] for name in made.nodes}
    for link in made.links:
        neighbours[link.a.node].append(link.b.node)
        neighbours[link.b.node].append(link.a.node)
    most = 0
    for server in made.servers:
        distance, waiting = {server.name: 0}, deque([server.name])
        while waiting:
            here = waiting.popleft()
            for there in neighbours[here]:
                if there not in distance:
                    distance[there] = distance[here] + 1
                    waiting.append(there)
        most = max(most, *(distance[other.name] for other in made.servers))
    return most


@pytest.mark.parametrize("text", (*BCUBES, *TORUSES, *ROUTED))
def test_counts_are_those_of_the_fabric(text: str) -> None:
    made = fabric(text)
    census = made.shape.census
    assert (census.switches, census.cables) == (len(made.switches), len(made.links))
    assert farthest(made) == min(census.diameter_cables, farthest(made)) >= census.diameter_cables - 2


@pytest.mark.parametrize(
    ("text", "diameter", "bisection"),
    [
        *(("bcube(4,2)", 4, 8), ("bcube(2,3)", 6, 4), ("torus(4,4)", 4, 8), ("torus(2,2)", 2, 2)),
        *(("torus(6)", 3, 2), ("fattree(16,1)", 6, 8), ("leafspine(2,1)", 4, 2)),
    ],
)
def test_distances_and_bisections_of_the_literature(text: str, diameter: int, bisection: int) -> None:
    census = fabric(text).shape.census
    assert (census.diameter_cables, census.bisection_cables) == (diameter, bisection)


@pytest.mark.parametrize(
    ("servers", "ports", "switch_ports"), [(9, 2, 8), (64, 4, 16), (512, 6, 32), (72, 2, 16)]
)
def test_shapes_that_are_proposed_fit(servers: int, ports: int, switch_ports: int) -> None:
    found = [shape for kind in KINDS for shape in kind.fitting(servers, ports, switch_ports)]
    assert len({shape.title for shape in found}) >= 3
    for shape in found:
        assert prod(shape.radices) == servers
        assert shape.ports_per_server <= ports
        assert shape.switch_ports <= switch_ports
        assert shape.misfit() is None
    titles = {shape.title for shape in found}
    assert servers != 64 or {"BCube(8,2)", "BCube(4,3)", "Torus 8x8", "Torus 2x2x16"} <= titles
