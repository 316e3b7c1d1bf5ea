# SPDX-License-Identifier: Apache-2.0
"""One rank's transfers have the loads of all ranks' transfers."""

from __future__ import annotations

import numpy as np
import pytest

from hipsnet.collective import loads
from hipsnet.collective.algorithms import Algorithm
from hipsnet.predict import demand
from hipsnet.predict.bounds import TooLarge
from hipsnet.predict.orbits import is_symmetric, orbit, require_memory, rows
from hipsnet.predict.profile import of_orbit, of_transfers
from hipsnet.topology.kinds import BCube
from tests.collective.shapes import BCUBES, ROUTED, TORUSES, fabric

ALGORITHMS = (
    *(Algorithm("hips"), Algorithm("hips", ("ring",)), Algorithm("hips", ("mesh",))),
    *(Algorithm("hips", ("full",)), Algorithm("ring"), Algorithm("mesh"), Algorithm("mesh", ("full",))),
)
LARGE = ("bcube(8,3)", "torus(8,8,8)", "fattree(128,1)")
FIELDS = ("thread", "stage", "round", "level", "length", "op")


def defined(algorithm: Algorithm, shape: str) -> bool:
    return algorithm.name != "hips" or shape.startswith(("bcube", "torus"))


PAIRS = [
    pytest.param(algorithm, shape, id=f"{algorithm.name}-{','.join(algorithm.exchange)}-{shape}")
    for algorithm in ALGORITHMS
    for shape in (*BCUBES, *TORUSES, *ROUTED, *LARGE)
    if defined(algorithm, shape) and not (algorithm.name in ("mesh", "ring") and shape in LARGE[:2])
]


def divisible(algorithm: Algorithm, shape: str) -> int:
    """A length that all threads and pieces divide."""
    hierarchy = algorithm.hierarchy(fabric(shape).shape)
    shares = np.lcm.reduce([thread.share.denominator for thread in hierarchy.threads])
    return 2 * int(shares) * len(fabric(shape).servers)


@pytest.mark.parametrize(("algorithm", "shape"), PAIRS)
def test_loads_are_those_of_all_ranks(algorithm: Algorithm, shape: str) -> None:
    made, count = fabric(shape), divisible(algorithm, shape)
    hierarchy = algorithm.hierarchy(made.shape)
    schedule = algorithm.build(made, count)
    report = loads.report(schedule, made)
    one = of_orbit(count, orbit(hierarchy, count), made.shape.far_ports)
    assert is_symmetric(hierarchy)
    assert (one.busiest, one.load.sum(), one.steps) == (report.busiest, report.in_steps, report.steps)
    assert one.longest.max() == report.largest
    assert one.messages == len(schedule.transfers) == rows(hierarchy)
    every = of_transfers(count, schedule.transfers, made.shape.far_ports)
    for name in ("load", "senders", "longest", "added", "busiest", "messages"):
        assert np.array_equal(getattr(one, name), getattr(every, name)), name


@pytest.mark.parametrize("shape", ["bcube(3,2)", "torus(3,3)", "torus(2,3,2)", "fattree(5,3)"])
def test_every_rank_has_the_rows_of_rank_0(shape: str) -> None:
    made = fabric(shape)
    algorithm = Algorithm("hips" if made.shape.hips else "ring")
    count = divisible(algorithm, shape)
    found = orbit(algorithm.hierarchy(made.shape), count)
    transfers = algorithm.build(made, count).transfers
    assert found.multiplicity == len(made.servers)
    for rank in range(found.multiplicity):
        own = transfers[transfers["src"] == rank]
        assert sorted(own[list(FIELDS)].tolist()) == sorted(found.transfers[list(FIELDS)].tolist())


def test_large_fabrics_need_few_rows() -> None:
    shape = BCube(kind="bcube", n=8, levels=4)
    hierarchy = Algorithm("hips").hierarchy(shape)
    assert len(orbit(hierarchy, 1 << 24).transfers) == 224
    assert rows(hierarchy) == 917_504
    larger = BCube(kind="bcube", n=16, levels=4)  # 65,536 servers
    profile = demand.at_ports(Algorithm("hips"), larger, 1 << 30)
    assert profile.busiest == 2 * 65535 * (1 << 30) / (65536 * 4)


@pytest.mark.parametrize("algorithm", [Algorithm("ps", servers=3), Algorithm("hips", ("ps",))])
@pytest.mark.parametrize("shape", ["bcube(3,2)", "bcube(4,1)", "bcube(2,3)"])
def test_rows_are_counted_without_building_them(algorithm: Algorithm, shape: str) -> None:
    made = fabric(shape)
    hierarchy = algorithm.hierarchy(made.shape)
    assert not is_symmetric(hierarchy)
    assert rows(hierarchy) == len(algorithm.build(made, divisible(algorithm, shape)).transfers)


def test_a_schedule_that_does_not_fit_is_refused_before_it_is_built() -> None:
    hierarchy = Algorithm("mesh").hierarchy(BCube(kind="bcube", n=8, levels=4))
    with pytest.raises(TooLarge, match=r"134,184,960 transfers, about 16\.\d GiB"):
        require_memory(hierarchy, "mesh on BCube(8,4)")
