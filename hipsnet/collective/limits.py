# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on synchronization time: the physical limit of the ports, and each algorithm's closed form."""

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


def bound(fabric: Fabric) -> Fraction:
    """Return 2 (N-1) / (N ports): no algorithm synchronizes W bytes in less than bound x W / B seconds.

    Every server must send and receive at least 2 (N-1)/N W bytes through its ports (Patarasuk and Yuan 2009).
    """
    return bound_of(fabric.shape)


def bound_of(shape: FabricKind) -> Fraction:
    """Return the bound of a fabric of this shape."""
    servers = prod(shape.radices)
    return Fraction(2 * (servers - 1), servers * shape.ports_per_server)


def limit_s(fabric: Fabric, rate_bps: int | None, size_bytes: int) -> float | None:
    """Return the physical limit 2 (N-1) W / (N sum of port rates) in seconds; None for an unlimited rate."""
    if rate_bps is None:
        return None
    return float(bound(fabric) * 8 * size_bytes / rate_bps)


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
