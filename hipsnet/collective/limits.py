# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on the time of a collective: the physical limit of the ports, and the closed forms of all_reduce."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from hipsnet.topology import Fabric, FabricKind


@dataclass(frozen=True)
class ClosedForm:
    """W bytes over ports of B bytes/s take bandwidth x W / B + steps x latency."""

    bandwidth: Fraction
    steps: int


def bound(fabric: Fabric, collective: str = "all_reduce") -> Fraction:
    """Return the bound of a collective: it takes at least bound x W / B seconds for the longest array of a rank, W.

    Every server must send and receive at least 2 (N-1)/N W bytes through its ports in an all_reduce (Patarasuk and
    Yuan 2009), half of that in its halves. The root of a broadcast must send W. In an all_to_all, what is sent to
    servers that are not neighbours passes through ports of others: the bound is the load of all ports together.
    """
    return bound_of(fabric.shape, collective)


def bound_of(shape: FabricKind, collective: str = "all_reduce") -> Fraction:
    """Return the bound of a collective on a fabric of this shape."""
    servers = prod(shape.radices)
    through_ports = {
        "all_reduce": Fraction(2 * (servers - 1), servers),
        "broadcast": Fraction(servers > 1),
        "reduce": Fraction(servers > 1),
        "all_to_all": Fraction(_hops(shape), servers),
        "barrier": Fraction(0),
    }
    return through_ports.get(collective, Fraction(servers - 1, servers)) / shape.ports_per_server


def bus_factor(collective: str, ranks: int) -> float:
    """Return busbw / algbw as nccl-tests defines it (doc/PERFORMANCE.md): the share of W that a port must carry."""
    factors = {"all_reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0, "reduce": 1.0, "barrier": 0.0}
    return factors.get(collective, (ranks - 1) / ranks)


def limit_s(
    fabric: Fabric, rate_bps: int | None, size_bytes: int, collective: str = "all_reduce"
) -> float | None:
    """Return the physical limit in seconds for arrays of `size_bytes`; None for an unlimited rate."""
    if rate_bps is None:
        return None
    return float(bound(fabric, collective) * 8 * size_bytes / rate_bps)


def _hops(shape: FabricKind) -> int:
    """The hops from one server to all others together; 1 to each where switches connect all."""
    ranks = prod(shape.radices)
    if shape.hips is None:
        return ranks - 1
    if not shape.hips.has_rings:
        return sum(ranks // side * (side - 1) for side in shape.radices)
    return sum(ranks // side * (side * side // 4) for side in shape.radices)


def ring(fabric: Fabric) -> ClosedForm:
    """Ring over all servers, one thread per port."""
    return ClosedForm(bound(fabric), 2 * (len(fabric.servers) - 1))


def mesh(fabric: Fabric) -> ClosedForm:
    """Direct exchange between all servers, with an incast of N - 1 into each port."""
    return ClosedForm(bound(fabric), 2)


def ps(fabric: Fabric, servers: int) -> ClosedForm:
    """P parameter servers that are also workers: their own share stays local, so N - 1 vectors are sent, not N."""
    others = len(fabric.servers) - 1
    return ClosedForm(Fraction(2 * others, servers * len(fabric.servers[0].ports)), 2)


def hips_bcube(n: int, levels: int, exchange: str) -> ClosedForm:
    """HiPS on BCube(n, levels), with the same exchange at every level.

    With ps, a thread's whole share passes through one port of the group's server at each stage. The other
    exchanges reach the bound.
    """
    if exchange == "ps":
        return ClosedForm(Fraction(2 * (n - 1)), 2 * levels)
    servers = n**levels
    rounds = n - 1 if exchange == "ring" else 1
    return ClosedForm(Fraction(2 * (servers - 1), servers * levels), 2 * levels * rounds)


def hips_torus(dims: tuple[int, ...], one_way: bool) -> ClosedForm:
    """HiPS with rings on a torus; exact for one dimension, and for equal dims above 2."""
    servers, directions = prod(dims), 1 if one_way else 2
    return ClosedForm(
        Fraction(2 * (servers - 1), servers * len(dims) * directions), 2 * sum(side - 1 for side in dims)
    )
