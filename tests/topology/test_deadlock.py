# SPDX-License-Identifier: Apache-2.0
"""The channel-dependency graph finds exactly the cycles that exist."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest

from hipsnet.errors import TopologyError
from hipsnet.topology import Fabric, Hop, deadlock, parse, paths
from hipsnet.topology.deadlock import Ways
from tests.topology.conftest import MakeFabric, MakePackets, Packets

Graph = dict[tuple[str, int], set[tuple[str, int]]]


def has_cycle(graph: Graph) -> bool:
    """Whether channels remain after repeatedly removing those that wait for none: brute force by definition."""
    graph = {channel: set(after) for channel, after in graph.items()}
    while free := [channel for channel, after in graph.items() if not after & graph.keys()]:
        for channel in free:
            del graph[channel]
    return bool(graph)


def waits(fabric: Fabric, walks: Iterable[Iterable[Hop]]) -> Graph:
    """The channels each channel waits for, from the hops of packets."""
    graph: Graph = {}
    for hops in walks:
        channels = []
        for hop in hops:
            channels.append((hop.sender.node, hop.sender.index))
            last = fabric.peer(hop.receiver)
            if last != hop.sender:
                channels.append((last.node, last.index))
        for first, second in itertools.pairwise(channels):
            graph.setdefault(first, set()).add(second)
    return graph


def fixed_walks(fabric: Fabric, packets: Packets) -> Iterator[Iterable[Hop]]:
    for source, target in itertools.permutations(fabric.servers, 2):
        for choice in range(1 if fabric.shape.paths_are_disjoint else 12):
            yield packets.walk(source.name, target.identity, choice)


def disjoint_walks(fabric: Fabric, packets: Packets) -> Iterator[Iterable[Hop]]:
    for source, target in itertools.permutations(fabric.servers, 2):
        for path in paths(fabric, source.name, target.name):
            if fabric.shape.paths_are_disjoint:
                yield path.hops
            else:
                yield from (packets.walk(source.name, path.destination, choice) for choice in range(12))


def test_the_identity_routes_are_judged_as_their_packets_are(
    shape: str, make_fabric: MakeFabric, packets: MakePackets
) -> None:
    fabric = make_fabric(shape)
    graph = waits(fabric, fixed_walks(fabric, packets(shape)))
    assert (deadlock.cycle(fabric, "fixed") is not None) == has_cycle(graph)


def test_the_path_sets_are_judged_as_their_packets_are(
    shape: str, make_fabric: MakeFabric, packets: MakePackets
) -> None:
    fabric = make_fabric(shape)
    graph = waits(fabric, disjoint_walks(fabric, packets(shape)))
    assert (deadlock.cycle(fabric, "disjoint") is not None) == has_cycle(graph)


def test_a_named_cycle_is_one_of_packets(shape: str, make_fabric: MakeFabric, packets: MakePackets) -> None:
    fabric = make_fabric(shape)
    both: list[tuple[Ways, Iterable[Iterable[Hop]]]] = [
        ("fixed", fixed_walks(fabric, packets(shape))),
        ("disjoint", disjoint_walks(fabric, packets(shape))),
    ]
    for ways, walks in both:
        if named := deadlock.cycle(fabric, ways):
            graph = waits(fabric, walks)
            channels = [(node, int(port[1:])) for node, port in (name.split(".") for name in named)]
            assert channels[0] == channels[-1]
            assert len(set(channels)) == len(channels) - 1
            for first, second in itertools.pairwise(channels):
                assert second in graph[first], f"nothing that came by {first} goes on by {second}"


@pytest.mark.parametrize(
    ("flow", "fixed", "disjoint"),
    [
        ("{kind: bcube, n: 3, levels: 2}", False, True),
        ("{kind: bcube, n: 8, levels: 1}", False, False),
        ("{kind: bcube, n: 4, levels: 3}", False, True),
        ("{kind: torus, dims: [3, 3]}", False, True),
        ("{kind: torus, dims: [3, 3, 3]}", False, True),
        ("{kind: torus, dims: [2, 2, 2]}", False, True),
        ("{kind: torus, dims: [4, 3]}", True, True),
        ("{kind: torus, dims: [5, 5]}", True, True),
        ("{kind: fattree, servers: 16}", False, False),
        ("{kind: fattree, servers: 9, nics: 4}", False, False),
        ("{kind: leafspine, leaves: 4, spines: 2, servers: 4, nics: 2}", False, False),
        ("{kind: dragonfly, groups: 9, routers: 4, servers: 2, global_links: 2}", True, True),
        ("{kind: dragonfly, groups: 2, routers: 2, servers: 1, global_links: 1}", True, True),
    ],
)
def test_known_verdicts(flow: str, fixed: bool, disjoint: bool, make_fabric: MakeFabric) -> None:
    fabric = make_fabric(flow)
    by_routers = fixed and bool(fabric.switches)
    assert (deadlock.cycle(fabric, "neighbours") is not None) == by_routers
    assert (deadlock.cycle(fabric, "fixed") is not None) == fixed
    assert (deadlock.cycle(fabric, "disjoint") is not None) == disjoint


@pytest.mark.parametrize(
    ("flow", "ways", "cure"),
    [
        ("{kind: bcube, n: 3, levels: 2}", "disjoint", "fixed"),
        ("{kind: torus, dims: [3, 3]}", "disjoint", "fixed"),
        ("{kind: torus, dims: [4, 4]}", "disjoint", "neighbours"),
        ("{kind: torus, dims: [4, 4]}", "fixed", "neighbours"),
    ],
)
def test_a_file_is_refused_with_its_cycle_and_a_cure_that_works(flow: str, ways: str, cure: str) -> None:
    text = f"version: 1\nname: demo\nfabric: {flow}\npfc:\n  priorities: [3]\n  routes: "
    with pytest.raises(TopologyError) as refusal:
        parse(text + ways, "t.yaml")
    message = str(refusal.value)
    assert message.startswith("t.yaml:6: pfc.routes\n")
    assert message.count(" -> ") >= 3
    assert f"allowed: {cure}" in message
    pfc = parse(text + cure, "t.yaml").pfc
    assert pfc and pfc.routes == cure


@pytest.mark.parametrize("ways", ["neighbours", "fixed", "disjoint"])
def test_a_lossless_dragonfly_is_refused_with_what_it_would_need(ways: str) -> None:
    text = "version: 1\nname: demo\nfabric: {kind: dragonfly, groups: 3, routers: 2, servers: 2, global_links: 1}\n"
    with pytest.raises(TopologyError) as refusal:
        parse(f"{text}pfc:\n  routes: {ways}\n", "t.yaml")
    message = str(refusal.value)
    assert message.startswith("t.yaml:5: pfc.routes\n")
    assert "g0r0.p2 -> g0r1.p3 -> " in message
    assert (
        "allowed: no pfc section: all traffic lossy; minimal routes on a Dragonfly need two virtual"
        in message
    )
    assert parse(text, "t.yaml").pfc is None
