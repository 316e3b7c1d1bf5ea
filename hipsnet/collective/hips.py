# SPDX-License-Identifier: Apache-2.0
"""HiPS: hierarchical parameter synchronization on BCube and Torus (Geng et al., SIGCOMM NetAI 2018).

There is one thread for each level (and, with torus rings, for each direction). Thread i starts at level i, so
the threads work on different levels at every stage. The shares are chosen so that all ports carry the same load.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hipsnet.collective.collectives import ALL_REDUCE, Collective
from hipsnet.collective.exchange import Column, Exchange, full, mesh, ring, server
from hipsnet.collective.hierarchy import Hierarchy, Thread, rotated
from hipsnet.errors import InputError
from hipsnet.topology import FabricKind, HipsLevels

EXCHANGES = ("mesh", "ring", "ps", "full")


def hierarchy(
    shape: FabricKind,
    exchange: tuple[str, ...] = (),
    one_way: bool = False,
    collective: Collective = ALL_REDUCE,
) -> Hierarchy:
    """Return the threads of HiPS on a fabric of this shape.

    `exchange` is the algorithm inside the groups of a level (mesh, ring or ps): empty for the fabric's
    default (mesh on BCube, ring on Torus), one name for all levels, or one name for each level. With ps, one
    server of each group computes the group's sum, takes part in the next level and finally distributes the
    sum to its group; the role rotates with thread and piece. `one_way` uses torus rings in one direction
    only.

    With full, at all levels, there is one thread, and the fewest steps: ranges are not cut. Where each rank has a
    share of the vector, they are cut, but in rank order, so that a rank sends one range to each neighbour.

    Raises InputError if the fabric has no levels, if the number or the names of the exchanges are
    wrong or not for this collective, or if `one_way` is given without torus rings.
    """
    levels, dims = _levels(shape), shape.radices
    if collective.name == "barrier" and not (exchange or one_way or (levels.has_rings and max(dims) > 3)):
        exchange = ("full",)  # to neighbours: the same connections
    names, ports = _per_level(exchange, levels, collective), tuple(map(np.array, levels.ports))
    if one_way and not (levels.has_rings and "ring" in names):
        raise InputError(
            f"one_way requires a torus with ring exchange; found {shape.title} with {', '.join(names)}"
        )
    if names[0] == "full":
        return Hierarchy(dims, (_single_thread(dims, ports, collective.has_shares),))
    rings = [name == "ring" and side > 2 for name, side in zip(names, dims, strict=True)]
    directions = (1, -1) if levels.has_rings and any(rings) and not one_way else (1,)
    used = [1 if one_way and ring else len(set(found[1:])) for found, ring in zip(ports, rings, strict=True)]
    threads = tuple(
        Thread(
            share / len(directions),
            rotated(len(dims), start),
            tuple(_exchange(name, side, direction) for name, side in zip(names, dims, strict=True)),
            ports,
            first_server=start,
        )
        for start, share in enumerate(_shares(names, dims, used, collective))
        for direction in directions
    )
    return Hierarchy(dims, threads)


def _single_thread(dims: tuple[int, ...], ports: tuple[Column, ...], has_shares: bool) -> Thread:
    """The thread of the fewest steps. With shares, the highest digit first: its pieces are in rank order."""
    levels = tuple(range(len(dims)))
    if has_shares:
        return Thread(Fraction(1), levels[::-1], tuple(map(mesh, dims)), ports)
    return Thread(Fraction(1), levels, tuple(map(full, dims)), ports)


def _levels(shape: FabricKind) -> HipsLevels:
    if shape.hips is None:
        raise InputError(f"hips is not defined on {shape.title}: {shape.no_hips}; use ring, mesh or ps")
    return shape.hips


def _per_level(exchange: tuple[str, ...], levels: HipsLevels, collective: Collective) -> tuple[str, ...]:
    names, depth = exchange or (levels.exchange,), len(levels.ports)
    if len(names) not in (1, depth):
        raise InputError(f"exchange: found {len(names)} names; allowed: 1, or {depth} (one for each level)")
    if unknown := [name for name in names if name not in EXCHANGES]:
        raise InputError(f"exchange: found {unknown[0]!r}; allowed: {', '.join(EXCHANGES)}")
    if "ps" in names and collective.name not in ("all_reduce", "barrier"):
        raise InputError(f"exchange: ps is not defined for {collective.name}; use mesh, ring or full")
    if "full" in names and len(set(names)) > 1:
        raise InputError(f"exchange: found {','.join(names)}; full is for all levels or none")
    return names * depth if len(names) == 1 else names


def _exchange(name: str, side: int, direction: int) -> Exchange:
    if name == "ring":
        return ring(side, direction)
    return mesh(side) if name == "mesh" else server(side)


def _shares(
    names: Sequence[str], dims: Sequence[int], ports: Sequence[int], collective: Collective
) -> list[Fraction]:
    """Return, for each starting level, the fraction of the vector that makes the loads of all ports equal.

    Let r be the amount of data that a group exchanges at a level, over all threads, n the size of the group
    and p the number of ports that a server has at that level: each port carries r (1 - 1/n) / p. Let w be the
    share of the threads that start at the level, N the number of servers, and r', n', p' the values of the
    previous level. Then r = w + (r'/n' - w/N): the previous level leaves r'/n', of which w/N belongs to the
    threads that end there. Equal loads give w in proportion to p n/(n-1) - p'/(n'-1), which is positive, and
    the same for all levels if all dims are equal. With ps, loads cannot be equal; the shares are equal instead.

    In a broadcast, the root sends each thread's share once, at the thread's first level: w is proportional to p.
    In an all_to_all, each thread uses each level alike: the shares are equal.
    """
    if "ps" in names or collective.name == "all_to_all":
        return [Fraction(1, len(dims))] * len(dims)
    if collective.name in ("broadcast", "reduce"):
        return [Fraction(found, sum(ports)) for found in ports]
    weights = [
        Fraction(ports[level] * dims[level], dims[level] - 1)
        - Fraction(ports[level - 1], dims[level - 1] - 1)
        for level in range(len(dims))
    ]
    return [weight / sum(weights) for weight in weights]
