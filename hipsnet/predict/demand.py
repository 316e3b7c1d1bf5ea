# SPDX-License-Identifier: Apache-2.0
"""The profile of an algorithm on a fabric: by one rank's transfers, by all ports, or along the routes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.hierarchy import Hierarchy, build_hierarchy
from hipsnet.errors import InputError
from hipsnet.predict.network import Network
from hipsnet.predict.orbits import is_symmetric, orbit, require_memory
from hipsnet.predict.profile import Profile, of_orbit, of_places, of_transfers
from hipsnet.topology import FabricKind


def at_ports(algorithm: Algorithm, shape: FabricKind, count: int) -> Profile:
    """Return the profile of an all-reduce of `count` elements from the loads of the ports; needs no fabric.

    Takes a fraction of a second also for 65,536 servers if all ranks do the same. Raises InputError if the
    algorithm is not defined on the shape, or if the ports do not describe its load (see `is_one_hop`), TooLarge if
    the schedule has to be built and takes too much memory.
    """
    hierarchy = algorithm.hierarchy(shape)
    if not ports_suffice(hierarchy, shape):
        raise InputError(
            f"{algorithm.name} on {shape.title} passes through other servers' ports or shared cables, so its "
            "closed form does not hold; its routes have to be followed, which takes a topology file"
        )
    if is_symmetric(hierarchy):
        return of_orbit(count, orbit(hierarchy, count), shape.far_ports)
    require_memory(hierarchy, f"{algorithm.name} on {shape.title}")
    schedule = build_hierarchy(algorithm.name, hierarchy, count)
    return of_transfers(count, schedule.transfers, shape.far_ports)


def along_routes(algorithm: Algorithm, network: Network, count: int) -> Profile:
    """Return the profile from the loads of all cables; ways of equal cost share evenly.

    Raises InputError if the algorithm is not defined on the fabric, TooLarge if its schedule is.
    """
    fabric = network.fabric
    hierarchy = algorithm.hierarchy(fabric.shape)
    require_memory(hierarchy, f"{algorithm.name} on {fabric.shape.title}")
    transfers = build_hierarchy(algorithm.name, hierarchy, count).transfers
    flows, inverse = np.unique(transfers[["src", "level", "dst"]], return_inverse=True)
    network.require_routes(len(flows))
    row, cable, share = _followed(network, flows, inverse)
    return of_places(count, transfers, row, cable, share, by_routes=True)


def profile(algorithm: Algorithm, network: Network, count: int) -> Profile:
    """Return the profile from the ports where they suffice, otherwise along the routes. Raises InputError."""
    shape = network.fabric.shape
    if ports_suffice(algorithm.hierarchy(shape), shape):
        return at_ports(algorithm, shape, count)
    return along_routes(algorithm, network, count)


def ports_suffice(hierarchy: Hierarchy, shape: FabricKind) -> bool:
    """Whether the two ends of each transfer are the only ports that its data passes through, or that matter."""
    return shape.is_nonblocking or is_one_hop(hierarchy, shape)


def is_one_hop(hierarchy: Hierarchy, shape: FabricKind) -> bool:
    """Whether every transfer goes to a server at the same switch, or at the other end of a cable."""
    levels = shape.hips
    if levels is None or hierarchy.dims != shape.radices:
        return False
    return all(
        np.array_equal(thread.ports[level], levels.ports[level])
        and (not levels.has_rings or exchange.direction != 0 or exchange.members <= 3)
        for thread in hierarchy.threads
        for level, exchange in enumerate(thread.exchanges)
    )


def _followed(
    network: Network, flows: NDArray[Any], inverse: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return (transfer, cable, share) for every cable of every transfer, given each transfer's flow."""
    found = [network.shares(int(flow["src"]), int(flow["level"]), int(flow["dst"])) for flow in flows]
    lengths = np.array([len(cables) for cables in found], np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)])
    cables = np.fromiter((cable for item in found for cable in item), np.int64, int(first[-1]))
    shares = np.fromiter((share for item in found for share in item.values()), np.float64, int(first[-1]))
    row = np.repeat(np.arange(len(inverse)), lengths[inverse])
    within = np.arange(len(row)) - np.repeat(np.cumsum(lengths[inverse]) - lengths[inverse], lengths[inverse])
    place = first[inverse][row] + within
    return row, cables[place], shares[place]


def servers(shape: FabricKind) -> int:
    """Return the number of servers of a shape."""
    return prod(shape.radices)
