# SPDX-License-Identifier: Apache-2.0
"""Closed forms: the published formulas, both ways of execution, and the loads that routes make."""

from __future__ import annotations

import pytest

from hipsnet.collective import limits
from hipsnet.collective.algorithms import Algorithm
from hipsnet.errors import InputError
from hipsnet.predict import demand
from hipsnet.predict.closed import Constants, barrier, pipelined
from hipsnet.predict.network import Network
from tests.collective.shapes import fabric

MIB, ITEM, GBPS = 1 << 20, 4, 1e9
COUNT = 64 * MIB // ITEM


def times(algorithm: Algorithm, shape: str, constants: Constants) -> tuple[float, float]:
    """Barrier and pipelined time of 64 MiB at 1 Gbit/s."""
    profile = demand.profile(algorithm, Network(fabric(shape)), COUNT)
    return (
        barrier(profile, ITEM, GBPS, constants).total_s,
        pipelined(profile, ITEM, GBPS, constants, MIB).total_s,
    )


def test_published_formulas() -> None:
    """2 (N-1)/N W/(k B) + steps x latency."""
    latency = Constants(latency_s=1e-3)
    assert times(Algorithm("hips"), "bcube(3,2)", latency)[0] == pytest.approx(0.481219, abs=1e-6)
    assert times(Algorithm("ring"), "fattree(9,1)", latency)[0] == pytest.approx(0.970438, abs=1e-6)


@pytest.mark.parametrize("shape", ["bcube(3,2)", "torus(3,3)", "bcube(3,3)", "torus(2,3,2)"])
def test_hips_takes_as_long_as_the_limit(shape: str) -> None:
    limit = limits.limit_s(fabric(shape), int(GBPS), 64 * MIB)
    assert times(Algorithm("hips"), shape, Constants())[1] == pytest.approx(limit, rel=1e-5)


def test_three_parameter_servers_gain_by_pipelining() -> None:
    in_steps, overlapped = times(Algorithm("ps", servers=3), "fattree(9,1)", Constants())
    assert in_steps / overlapped == pytest.approx(1.6, rel=1e-3)


@pytest.mark.parametrize("shape", ["bcube(3,2)", "torus(3,3)", "fattree(9,2)", "dragonfly(3,2)"])
@pytest.mark.parametrize("name", ["ring", "mesh", "ps"])
def test_pipelining_never_takes_longer_than_barriers(name: str, shape: str) -> None:
    for latency in (0, 1e-6, 1e-3, 1.0):
        in_steps, overlapped = times(Algorithm(name), shape, Constants(latency_s=latency))
        assert overlapped <= in_steps * (1 + 1e-12)


def test_terms_of_genmodel() -> None:
    """BCube(4,1), mesh: every port receives from 3, adds 3/4 of the vector; incast counts senders above 2."""
    profile = demand.profile(Algorithm("mesh"), Network(fabric("bcube(4,1)")), COUNT)
    found = barrier(profile, ITEM, GBPS, Constants(0.5, 1e-9, 1e-10, 1e-11, incast_senders=2))
    size = 64 * MIB
    assert found.latency_s == 2 * 0.5
    assert found.bandwidth_s == pytest.approx(2 * 0.75 * size * 8 / GBPS)
    assert found.add_s == pytest.approx(0.75 * size * 1e-9)
    assert found.access_s == pytest.approx(3 * 0.75 * size * 1e-10)
    assert found.incast_s == pytest.approx(1.5 * size * 1e-11)
    assert found.total_s == sum(vars(found).values())


def test_constants_that_are_refused() -> None:
    with pytest.raises(InputError, match="latency_s: found -1; allowed: 0 or a positive number"):
        Constants(latency_s=-1)


def test_a_mesh_on_a_bcube_is_loaded_along_its_routes() -> None:
    """Of 8 destinations 4 are two hops away, so each port carries the pieces of others, too."""
    network = Network(fabric("bcube(3,2)"))
    profile = demand.profile(Algorithm("mesh"), network, 9 * 2 * 100)
    assert profile.by_routes
    assert profile.busiest == pytest.approx(2 * 12 / 18 * 9 * 2 * 100)
    with pytest.raises(InputError, match=r"mesh on BCube\(3,2\) passes through other servers' ports"):
        demand.at_ports(Algorithm("mesh"), network.fabric.shape, 1800)


def test_ports_suffice_where_no_cable_is_shared() -> None:
    """The loads along the routes of a Fat-Tree, ways of equal cost sharing evenly, are those of the ports."""
    for shape in ("fattree(9,1)", "fattree(9,2)", "bcube(4,1)", "leafspine(3,2)"):
        network = Network(fabric(shape))
        by_routes = demand.along_routes(Algorithm("mesh"), network, 3600)
        if network.fabric.shape.is_nonblocking:
            assert demand.at_ports(Algorithm("mesh"), network.fabric.shape, 3600).busiest == by_routes.busiest
        else:  # two servers with two NICs each at a leaf with two uplinks
            assert (
                by_routes.busiest
                > demand.profile(Algorithm("mesh"), Network(fabric("fattree(6,2)")), 3600).busiest
            )
