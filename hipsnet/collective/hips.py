# SPDX-License-Identifier: Apache-2.0
"""HiPS: hierarchical parameter synchronization on BCube and Torus (Geng et al., SIGCOMM NetAI 2018).

As many threads as there are levels to start with, times the directions of a torus' rings; at every stage they
work on different levels. Their shares are such that every port carries the same load in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hipsnet.collective.exchange import Exchange, mesh, ring, server
from hipsnet.collective.hierarchy import Thread, build_hierarchy, rotated
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric, HipsLevels

EXCHANGES = ("mesh", "ring", "ps")


def build(fabric: Fabric, count: int, exchange: tuple[str, ...] = (), one_way: bool = False) -> Schedule:
    """Return the schedule of an all-reduce of `count` elements.

    `exchange` names how a level's group exchanges (mesh, ring or ps): nothing for the fabric's own way
    (mesh on BCube, ring on Torus), one name for all levels, or one for each. With ps one server of the
    group sums, alone goes on to the next level, and gives the group the sum in the end; which one it is
    rotates with thread and piece. `one_way` uses torus rings in one direction only. Raises InputError where
    the fabric has no levels, or no rings to be used in one direction.
    """
    levels, dims = _levels(fabric), fabric.dims
    names, ports = _per_level(exchange, levels), tuple(map(np.array, levels.ports))
    if one_way and not (levels.has_rings and "ring" in names):
        raise InputError(
            f"one_way is for rings of a torus; found {fabric.shape.title} with {', '.join(names)}"
        )
    rings = [name == "ring" and side > 2 for name, side in zip(names, dims, strict=True)]
    directions = (1, -1) if levels.has_rings and any(rings) and not one_way else (1,)
    used = [1 if one_way and ring else len(set(found[1:])) for found, ring in zip(ports, rings, strict=True)]
    threads = [
        Thread(
            share / len(directions),
            rotated(len(dims), start),
            tuple(_exchange(name, side, direction) for name, side in zip(names, dims, strict=True)),
            ports,
            first_server=start,
        )
        for start, share in enumerate(_shares(names, dims, used))
        for direction in directions
    ]
    return build_hierarchy("hips", dims, count, threads)


def _levels(fabric: Fabric) -> HipsLevels:
    if fabric.shape.hips is None:
        raise InputError(
            f"hips is not defined on {fabric.shape.title}: {fabric.shape.no_hips}; use ring, mesh or ps"
        )
    return fabric.shape.hips


def _per_level(exchange: tuple[str, ...], levels: HipsLevels) -> tuple[str, ...]:
    names, depth = exchange or (levels.exchange,), len(levels.ports)
    if len(names) not in (1, depth):
        raise InputError(f"exchange: found {len(names)} names; wanted one, or one for each of {depth} levels")
    if unknown := [name for name in names if name not in EXCHANGES]:
        raise InputError(f"exchange: found {unknown[0]!r}; allowed: {', '.join(EXCHANGES)}")
    return names * depth if len(names) == 1 else names


def _exchange(name: str, side: int, direction: int) -> Exchange:
    if name == "ring":
        return ring(side, direction)
    return mesh(side) if name == "mesh" else server(side)


def _shares(names: Sequence[str], dims: Sequence[int], ports: Sequence[int]) -> list[Fraction]:
    """Return for each starting level the part of the vector that makes the loads of all ports equal.

    Let r be what a group divides at a level for all threads together, n the level's side and p the ports
    that a server has there: each carries r (1 - 1/n) / p. The threads that begin at a level, weight w,
    bring r to w + (r'/n' - w/N), primes for the level before: what these have left of the others' shares,
    and not what is over of their own. With equal loads w is in proportion to p n/(n-1) - p'/(n'-1): above
    0, and the same for all where all dims are alike. With ps loads are never equal.
    """
    if "ps" in names:
        return [Fraction(1, len(dims))] * len(dims)
    weights = [
        Fraction(ports[level] * dims[level], dims[level] - 1)
        - Fraction(ports[level - 1], dims[level - 1] - 1)
        for level in range(len(dims))
    ]
    return [weight / sum(weights) for weight in weights]
