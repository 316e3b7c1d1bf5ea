# SPDX-License-Identifier: Apache-2.0
"""The cost model: features of schedules, the fit of its constants, and the choice of an algorithm."""

from __future__ import annotations

import pytest

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.choice import chooser, label
from hipsnet.collective.collectives import Collective
from hipsnet.collective.cost import Constants, Features, Sample, constants, features, fit
from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Topology, build, parse

LINK = "link: {rate: 500Mbit/s, mtu: 9000}"
HIPS, FULL = Algorithm("hips"), Algorithm("hips", ("full",))


def made(fabric: str, *more: str) -> tuple[Topology, Fabric]:
    topology = parse("\n".join(["version: 1", "name: demo", f"fabric: {fabric}", LINK, *more]), "test.yaml")
    return topology, build(topology)


BCUBE = made("{kind: bcube, n: 3, levels: 2}")


def test_features_of_hips_and_full() -> None:
    fabric = BCUBE[1]
    count = 18 * 100
    assert features(HIPS.build(fabric, count), fabric, 4) == Features(4, 32, 2 * 8 / 9 / 2 * count * 4)
    found = features(FULL.build(fabric, count), fabric, 4)
    assert (found.steps, found.port_bytes) == (2, 2 * count * 4 / (2 if found.messages == 16 else 1))


def test_the_fit_finds_the_constants_that_made_the_times() -> None:
    model = Constants(50.0, 120.0, 20.0, 16.5)
    shapes = [Features(s, m, b) for s, m in ((2, 8), (4, 32), (16, 32)) for b in (4, 1e4, 1e6)]
    found = fit([Sample(one, model.time_s(one)) for one in shapes])
    for name in ("call_us", "step_us", "message_us", "byte_ns"):
        assert getattr(found, name) == pytest.approx(getattr(model, name), rel=0.01)


def test_no_constant_is_negative() -> None:
    # The times fall with the number of steps.
    samples = [Sample(Features(s, 8, b), 1e-3 / s + b * 1e-8) for s in (2, 4, 8) for b in (0.0, 1e5, 1e6)]
    found = fit(samples)
    assert min(found.call_us, found.step_us, found.message_us, found.byte_ns) >= 0
    assert found.step_us == 0
    with pytest.raises(InputError, match="four constants; found 3 measurements"):
        fit(samples[:3])


def test_constants_come_from_the_file_or_from_the_rate() -> None:
    assert constants(BCUBE[0]).byte_ns == pytest.approx(16.8)
    topology, _ = made(
        "{kind: bcube, n: 3, levels: 2}", "cost: {call_us: 1.0, step_us: 2.0, message_us: 3.0, byte_ns: 4.0}"
    )
    assert constants(topology) == Constants(1.0, 2.0, 3.0, 4.0)


def test_small_vectors_go_whole_and_large_ones_in_pieces() -> None:
    auto = chooser(*BCUBE)
    assert [label(auto.choose(size)) for size in (4, 1024, 1 << 24)] == ["hips/full", "hips/full", "hips"]
    assert auto.names([4, 8, 1 << 24]) == "hips/full+hips"
    names = [auto.choose(1 << power) == FULL for power in range(2, 27)]
    assert names == sorted(names, reverse=True), "one change, from full to hips"
    assert "hips or hips/full by call" in auto.description


def test_the_constants_decide() -> None:
    cheap = made(
        "{kind: bcube, n: 3, levels: 2}", "cost: {call_us: 0.0, step_us: 0.0, message_us: 0.0, byte_ns: 1.0}"
    )
    assert chooser(*cheap).choose(4) == HIPS
    slow = made(
        "{kind: bcube, n: 3, levels: 2}",
        "cost: {call_us: 0.0, step_us: 1000000.0, message_us: 0.0, byte_ns: 1.0}",
    )
    assert chooser(*slow).choose(1 << 20) == FULL


@pytest.mark.parametrize(
    ("fabric", "names"),
    [
        ("{kind: bcube, n: 3, levels: 2}", ["hips", "hips/full"]),
        ("{kind: torus, dims: [3, 3]}", ["hips", "hips/full"]),
        ("{kind: fattree, servers: 9, nics: 1}", ["ring", "mesh", "mesh/full"]),
        ("{kind: fattree, servers: 40, nics: 1}", ["ring"]),
    ],
)
def test_candidates(fabric: str, names: list[str]) -> None:
    topology, built = made(fabric)
    assert [label(one) for one in chooser(topology, built).candidates] == names


def test_an_option_of_an_algorithm_fixes_it() -> None:
    assert chooser(*BCUBE, exchange=("ring",)).candidates == (Algorithm("hips", ("ring",)),)
    assert chooser(*BCUBE, servers=2).candidates == (Algorithm("ps", servers=2),)
    assert chooser(*BCUBE, algorithm="ring").choose(4) == Algorithm("ring")
    with pytest.raises(InputError, match="one_way requires a torus"):
        chooser(*BCUBE, one_way=True)


def test_other_collectives_use_what_supports_them() -> None:
    auto = chooser(*BCUBE)
    for name in ("reduce_scatter", "all_gather", "broadcast", "all_to_all", "barrier"):
        collective = Collective(name)
        auto.choose(4096, collective).build(BCUBE[1], collective.total(1, 9), collective)
    auto.choose(0, Collective("all_gather", counts=(0,) * 9))
