# SPDX-License-Identifier: Apache-2.0
"""Pictures show every node and every cable once, without overlaps."""

from __future__ import annotations

import itertools

import pytest

from hipsnet.topology import Topology, build, layout, parse

FLOWS = [
    "{kind: bcube, n: 3, levels: 2}",
    "{kind: bcube, n: 8, levels: 2}",
    "{kind: bcube, n: 2, levels: 3}",
    "{kind: bcube, n: 4, levels: 3}",
    "{kind: bcube, n: 5, levels: 1}",
    "{kind: torus, dims: [3, 3]}",
    "{kind: torus, dims: [4, 4]}",
    "{kind: torus, dims: [2, 3, 2]}",
    "{kind: torus, dims: [4, 4, 4]}",
    "{kind: torus, dims: [3, 2, 3, 2, 2]}",
    "{kind: torus, dims: [12]}",
    "{kind: fattree, servers: 9}",
    "{kind: fattree, servers: 9, nics: 2}",
    "{kind: fattree, servers: 5, nics: 3}",
    "{kind: fattree, servers: 128}",
    "{kind: leafspine, leaves: 3, spines: 2, servers: 3}",
    "{kind: leafspine, leaves: 2, spines: 8, servers: 1, uplinks: 2}",
    "{kind: leafspine, leaves: 16, spines: 4, servers: 4, nics: 2}",
    "{kind: dragonfly, groups: 3, routers: 2, servers: 2, global_links: 1}",
    "{kind: dragonfly, groups: 9, routers: 4, servers: 2, global_links: 2}",
    "{kind: dragonfly, groups: 2, routers: 5, servers: 3, global_links: 1}",
    "{kind: dragonfly, groups: 17, routers: 8, servers: 1, global_links: 2}",
]


def topology(flow: str) -> Topology:
    return parse(f"version: 1\nname: demo\nfabric: {flow}\n", "t.yaml")


@pytest.mark.parametrize("flow", FLOWS)
def test_nodes_and_cables_are_all_there(flow: str) -> None:
    fabric = build(topology(flow))
    picture = layout.arrange(topology(flow), fabric)
    assert sorted(box.label for box in picture.boxes) == sorted(fabric.nodes)
    assert len(picture.wires) == len(fabric.links)
    assert len(set(picture.wires)) == len(picture.wires)
    assert {wire.level for wire in picture.wires} == set(range(len(picture.levels)))


@pytest.mark.parametrize("flow", FLOWS)
def test_no_two_boxes_overlap(flow: str) -> None:
    picture = layout.arrange(topology(flow), build(topology(flow)))
    for a, b in itertools.combinations(picture.boxes, 2):
        apart_x = abs(a.x - b.x) - (a.width + b.width) / 2
        apart_y = abs(a.y - b.y) - (a.height + b.height) / 2
        assert max(apart_x, apart_y) > 0, f"{a.label} covers {b.label}"


@pytest.mark.parametrize("flow", FLOWS)
def test_every_wire_ends_at_the_boxes_of_its_cable(flow: str) -> None:
    fabric = build(topology(flow))
    picture = layout.arrange(topology(flow), fabric)
    boxes = {box.label: box for box in picture.boxes}
    for link, wire in zip(fabric.links, picture.wires, strict=True):
        ends = [boxes[link.a.node], boxes[link.b.node]]
        if (wire.points[0][1] > wire.points[3][1]) != (ends[0].y > ends[1].y) and fabric.switches:
            ends.reverse()
        for box, (x, y) in zip(ends, (wire.points[0], wire.points[3]), strict=True):
            assert abs(x - box.x) <= box.width / 2
            assert abs(y - box.y) <= box.height / 2 + 1e-9


def test_the_words_say_what_is_shown() -> None:
    picture = layout.arrange(topology(FLOWS[0]), build(topology(FLOWS[0])))
    assert picture.title == "demo: BCube(3,2)"
    for part in ("N = 9 servers", "2 ports each", "6 switches", "500Mbit/s per port"):
        assert part in picture.subtitle
    assert picture.levels == ("level 0: 10.0.0.0/16", "level 1: 10.1.0.0/16")
    assert layout.arrange(topology(FLOWS[7]), build(topology(FLOWS[7]))).title == "demo: Torus 2x3x2"
    assert layout.arrange(topology(FLOWS[11]), build(topology(FLOWS[11]))).title == "demo: Fat-Tree(4)"


def test_bcube_has_level_0_below_the_servers_and_the_others_above() -> None:
    picture = layout.arrange(topology(FLOWS[2]), build(topology(FLOWS[2])))
    heights = {(box.role, box.level): box.y for box in picture.boxes}
    assert heights["switch", 0] < heights["server", 0] < heights["switch", 1] < heights["switch", 2]
