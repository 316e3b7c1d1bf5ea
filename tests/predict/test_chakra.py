# SPDX-License-Identifier: Apache-2.0
"""Chakra traces, read back by a decoder of protobuf's wire format, execute to the end; ASTRA-sim's network file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from hipsnet.collective.algorithms import Algorithm
from hipsnet.errors import InputError
from hipsnet.predict.export import astra, chakra
from tests.collective.shapes import fabric

Fields = dict[int, list[Any]]


@dataclass
class Node:
    id: int
    kind: int
    deps: list[int] = field(default_factory=list)
    attributes: dict[str, int] = field(default_factory=dict)


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def fields(data: bytes) -> Fields:
    found: Fields = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: Any
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        else:
            assert key & 7 == 0
        found.setdefault(key >> 3, []).append(value)
    return found


def messages(data: bytes) -> list[Fields]:
    found, at = [], 0
    while at < len(data):
        size, at = varint(data, at)
        found.append(fields(data[at : at + size]))
        at += size
    return found


def node(message: Fields) -> Node:
    (number,), (kind,) = message[1], message[3]
    found = Node(int(number), int(kind))
    for packed in message.get(5, ()):
        at = 0
        while at < len(packed):
            value, at = varint(packed, at)
            found.deps.append(value)
    for attribute in message[10]:
        inside = fields(attribute)
        (name,) = inside.pop(1)
        ((value,),) = inside.values()
        found.attributes[name.decode()] = int(value)
    return found


@pytest.mark.parametrize(
    ("algorithm", "shape"),
    [(Algorithm(), "bcube(3,2)"), (Algorithm(), "torus(2,3,2)"), (Algorithm("ring"), "fattree(5,3)")],
)
def test_traces_match_each_other_and_end(algorithm: Algorithm, shape: str) -> None:
    made = fabric(shape)
    schedule = algorithm.build(made, 9000)
    ranks = []
    for content in chakra.traces(schedule, made, 4):
        head, *rest = messages(content)
        assert head == {1: [b"0.0.4"]}
        ranks.append([node(message) for message in rest])
    ends: dict[int, Counter[tuple[int, ...]]] = {chakra.SEND: Counter(), chakra.RECEIVE: Counter()}
    for rank, nodes in enumerate(ranks):
        assert [one.id for one in nodes] == list(range(len(nodes)))
        for one in nodes:
            values = one.attributes
            assert values["comm_src" if one.kind == chakra.SEND else "comm_dst"] == rank
            assert values["is_cpu_op"] == 0
            assert all(before < one.id for before in one.deps)
            key = tuple(values[name] for name in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
            ends[one.kind][key] += 1
    assert ends[chakra.SEND] == ends[chakra.RECEIVE]
    assert set(ends[chakra.SEND].values()) == {1}
    assert sum(key[3] for key in ends[chakra.SEND]) == 4 * int(schedule.transfers["length"].sum())
    assert executes(ranks)


def executes(ranks: list[list[Node]]) -> bool:
    """Whether every node can run: its dependencies are done, and what it receives was sent."""
    done: set[tuple[int, int]] = set()
    sent: set[tuple[int, int, int]] = set()
    moved = True
    while moved:
        moved = False
        for rank, nodes in enumerate(ranks):
            for one in nodes:
                values = one.attributes
                key = values["comm_src"], values["comm_dst"], values["comm_tag"]
                if (rank, one.id) in done or any((rank, before) not in done for before in one.deps):
                    continue
                if one.kind == chakra.RECEIVE and key not in sent:
                    continue
                if one.kind == chakra.SEND:
                    sent.add(key)
                done.add((rank, one.id))
                moved = True
    return len(done) == sum(map(len, ranks))


@pytest.mark.parametrize(
    ("shape", "blocks", "sides", "bandwidth"),
    [
        ("bcube(3,2)", ["Switch", "Switch"], [3, 3], [12.5, 12.5]),
        ("torus(2,3,2)", ["FullyConnected", "Ring", "FullyConnected"], [2, 3, 2], [12.5, 12.5, 12.5]),
        ("fattree(9,2)", ["Switch"], [9], [25]),
    ],
)
def test_the_network_of_astra_sim(
    shape: str, blocks: list[str], sides: list[int], bandwidth: list[float]
) -> None:
    found = yaml.safe_load(astra.network(fabric(shape).shape, 10**11, 5e-7))
    assert found == {
        "topology": blocks,
        "npus_count": sides,
        "bandwidth": bandwidth,
        "latency": [500] * len(sides),
    }


def test_a_network_without_dimensions_is_refused() -> None:
    with pytest.raises(InputError, match="astra: Dragonfly"):
        astra.network(fabric("dragonfly(3,2)").shape, 10**11, 0)
