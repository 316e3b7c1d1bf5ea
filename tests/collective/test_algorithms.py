# SPDX-License-Identifier: Apache-2.0
"""Every algorithm sums on every fabric at every length; HiPS moves the amounts that its paper states."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hipsnet.settings as known
from hipsnet.collective import hips
from hipsnet.collective.algorithms import NAMES, Algorithm
from hipsnet.collective.check import check
from hipsnet.collective.endpoints import receiver_ports
from hipsnet.collective.schedule import COPY, REDUCE, involving
from hipsnet.errors import InputError
from tests.collective.oracle import execute, is_right
from tests.collective.shapes import BCUBES, ROUTED, TORUSES, algorithms, counts, fabric


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from((*BCUBES, *TORUSES, *ROUTED)), counts)
def test_the_sum_is_everywhere(data: st.DataObject, shape: str, count: int) -> None:
    made = fabric(shape)
    schedule = data.draw(algorithms(made)).build(made, count)
    check(schedule, made)
    assert is_right(schedule)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from((*BCUBES, *TORUSES, *ROUTED)), counts)
def test_rounding_is_the_same_on_every_server(data: st.DataObject, shape: str, count: int) -> None:
    made = fabric(shape)
    schedule = data.draw(algorithms(made)).build(made, count)
    values = np.random.default_rng(count).normal(size=(len(made.servers), count))
    result = execute(schedule, values)
    assert len({row.tobytes() for row in result}) == 1


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from((*BCUBES, *TORUSES, *ROUTED)), counts)
def test_a_schedule_is_sorted_and_stays_as_it_is(data: st.DataObject, shape: str, count: int) -> None:
    made = fabric(shape)
    algorithm = data.draw(algorithms(made))
    schedule, again = algorithm.build(made, count), algorithm.build(made, count)
    keys = [tuple(int(t[c]) for c in ("stage", "round", "thread", "src", "dst")) for t in schedule.transfers]
    assert keys == sorted(keys)
    assert schedule.transfers.tobytes() == again.transfers.tobytes()
    assert (schedule.transfers["length"] > 0).all()
    assert (schedule.transfers["thread"] < schedule.threads).all()
    assert not schedule.transfers.flags.writeable


@pytest.mark.parametrize("shape", (*BCUBES, *TORUSES))
def test_hips_needs_one_hop_only_and_names_its_cable(shape: str) -> None:
    made = fabric(shape)
    schedule = Algorithm("hips").build(made, 10_000)
    entries = receiver_ports(made, schedule.transfers)
    for t, entry in zip(schedule.transfers, entries, strict=True):
        source, target = made.servers[t["src"]], made.servers[t["dst"]]
        port, other_end = source.ports[t["level"]], target.ports[entry]
        if made.kind == "torus":
            assert made.peer(port) == other_end
        else:
            assert made.peer(port).node == made.peer(other_end).node, "not at the same switch"


@pytest.mark.parametrize("shape", BCUBES)
def test_threads_of_hips_on_bcube_are_on_different_levels_at_every_stage(shape: str) -> None:
    made = fabric(shape)
    schedule = Algorithm("hips").build(made, 10_000)
    levels = len(made.dims)
    assert schedule.threads == levels
    for t in schedule.transfers:
        stage = int(t["stage"])
        step = stage if stage < levels else 2 * levels - 1 - stage
        assert t["level"] == (t["thread"] + step) % levels
        assert t["op"] == (REDUCE if stage < levels else COPY)


def test_server_01_of_bcube_3_2() -> None:
    """The example of the HiPS slides: 18 pieces of one element, 9 for each thread."""
    schedule = Algorithm("hips").build(fabric("bcube(3,2)"), 18)
    mine = schedule.transfers[involving(schedule.transfers, 1)]
    sends = [
        tuple(int(t[c]) for c in ("stage", "thread", "level", "dst", "offset", "length"))
        for t in mine
        if t["src"] == 1
    ]
    assert sends == [
        (0, 0, 0, 0, 0, 3), (0, 0, 0, 2, 6, 3), (0, 1, 1, 4, 12, 3), (0, 1, 1, 7, 15, 3),
        (1, 0, 1, 4, 4, 1), (1, 0, 1, 7, 5, 1), (1, 1, 0, 0, 9, 1), (1, 1, 0, 2, 11, 1),
        (2, 0, 1, 4, 3, 1), (2, 0, 1, 7, 3, 1), (2, 1, 0, 0, 10, 1), (2, 1, 0, 2, 10, 1),
        (3, 0, 0, 0, 3, 3), (3, 0, 0, 2, 3, 3), (3, 1, 1, 4, 9, 3), (3, 1, 1, 7, 9, 3),
    ]  # fmt: skip
    assert len(mine) == 2 * len(sends)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(BCUBES), st.integers(0, 5000))
def test_pieces_differ_by_one_element_at_most(shape: str, count: int) -> None:
    made = fabric(shape)
    schedule = Algorithm("hips").build(made, count)
    last = schedule.transfers["stage"] == len(made.dims) - 1
    pieces = {(int(t["offset"]), int(t["length"])) for t in schedule.transfers[last]}
    expected = schedule.threads * len(made.servers)
    lengths = [length for _, length in pieces] + [0] * (expected - len(pieces))
    assert sum(lengths) == count
    assert len(lengths) == expected
    assert max(lengths) - min(lengths) <= 1


def test_two_way_rings_of_one_dimension_share_the_cable_of_a_side_of_two() -> None:
    made = fabric("torus(2,3,2)")
    report = check(Algorithm("hips").build(made, 2 * 4 * 12), made)
    assert report.sent.min() == report.sent.max() == 2 * Fraction(11, 12) / 4 * 96


def test_ps_inside_levels_gives_every_thread_a_server_of_its_own() -> None:
    schedule = Algorithm("hips", ("ps",)).build(fabric("bcube(3,2)"), 18)
    last = schedule.transfers[schedule.transfers["stage"] == 1]
    assert {(int(t["thread"]), int(t["dst"])) for t in last} == {(0, 0), (1, 4)}


def test_ps_after_mesh_gives_every_piece_a_server_of_its_own() -> None:
    schedule = Algorithm("hips", ("mesh", "ps")).build(fabric("bcube(3,2)"), 18)
    last = schedule.transfers[(schedule.transfers["stage"] == 1) & (schedule.transfers["thread"] == 0)]
    assert {int(t["dst"]) for t in last} == {0, 4, 8}


@pytest.mark.parametrize("algorithm", [Algorithm("hips"), Algorithm("ring"), Algorithm("mesh")])
def test_512_servers(algorithm: Algorithm) -> None:
    made = fabric("bcube(8,3)")
    count = 3 * 512
    report = check(algorithm.build(made, count), made)
    assert report.busiest == 2 * 511


def test_4096_servers() -> None:
    """A million transfers: checked range by range, in blocks of the vector."""
    made = fabric("bcube(8,4)")
    report = check(Algorithm("hips").build(made, 4 * 4096), made)
    assert (report.busiest, report.steps) == (2 * 4095, 8)


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        ({"name": "rong"}, "bcube(3,2)", "allowed: hips, ring, mesh, ps"),
        ({"name": "ring", "exchange": ("mesh",)}, "bcube(3,2)", "exchange is an option of hips"),
        ({"name": "mesh", "one_way": True}, "torus(3,3)", "one_way is an option of hips"),
        ({"name": "hips", "servers": 2}, "bcube(3,2)", "servers is an option of ps"),
        ({"name": "hips", "exchange": ("star",)}, "bcube(3,2)", "allowed: mesh, ring, ps, full"),
        ({"name": "hips", "exchange": ("mesh",) * 3}, "bcube(3,2)", r"1, or 2 \(one for each level"),
        ({"name": "hips", "one_way": True}, "bcube(3,2)", "requires a torus with ring exchange"),
        (
            {"name": "hips", "one_way": True, "exchange": ("mesh",)},
            "torus(3,3)",
            "requires a torus with ring exchange",
        ),
        ({"name": "hips"}, "fattree(9,1)", "use ring, mesh or ps"),
        (
            {"name": "hips"},
            "leafspine(3,2)",
            "hips is not defined on Leaf-spine.3,2.*: its servers have no levels",
        ),
        ({"name": "hips"}, "dragonfly(3,2)", "use ring, mesh or ps"),
        ({"name": "ps", "servers": 10}, "bcube(3,2)", "1 to 9"),
        ({"name": "ps", "servers": 0}, "bcube(3,2)", "1 to 9"),
    ],
)
def test_wrong_options_are_reported(options: dict[str, object], shape: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Algorithm(**options).build(fabric(shape), 100)  # type: ignore[arg-type]


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(InputError, match="allowed: 0 or more elements"):
        Algorithm("hips").build(fabric("bcube(3,2)"), -1)


def test_settings_know_the_same_names() -> None:
    assert ("auto", *NAMES) == known.ALGORITHMS
    assert known.EXCHANGES == hips.EXCHANGES
    (flag,) = (variable.flag for variable in known.VARIABLES if variable.field == "algorithm")
    assert flag is not None
    assert flag.help.endswith(f", {', '.join(NAMES[:-1])} or {NAMES[-1]}")
