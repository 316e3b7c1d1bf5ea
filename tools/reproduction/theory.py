# SPDX-License-Identifier: Apache-2.0
"""The theoretical evaluation: the time of every scheme over the number of servers, and reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from hipsnet.collective.algorithms import Algorithm
from hipsnet.predict import demand
from hipsnet.predict.closed import Constants, barrier
from hipsnet.topology import KINDS, FabricKind
from orchestrator.views.figures import figure

ELEMENTS = 143_667_240  # VGG-19
LEVELS = 2, 3
SIDES = 3, 4, 8, 16


@dataclass(frozen=True)
class Scheme:
    """A curve: an algorithm on the fabric that `shape` gives for a side n and d levels or dimensions."""

    name: str
    algorithm: Algorithm
    shape: Callable[[int, int], FabricKind]


_KINDS = {kind.kind_name(): kind for kind in KINDS}


def _shape(kind: str, **parameters: object) -> FabricKind:
    return _KINDS[kind].model_validate({"kind": kind, **parameters})


def _bcube(n: int, d: int) -> FabricKind:
    return _shape("bcube", n=n, levels=d)


def _fat_tree(n: int, d: int, nics: int) -> FabricKind:
    return _shape("fattree", servers=n**d, nics=nics)


def _torus(n: int, d: int) -> FabricKind:
    return _shape("torus", dims=(n,) * d)


SCHEMES = (
    Scheme("ring, Fat-Tree, 1 NIC", Algorithm("ring"), lambda n, d: _fat_tree(n, d, 1)),
    Scheme("mesh, Fat-Tree, 1 NIC", Algorithm("mesh"), lambda n, d: _fat_tree(n, d, 1)),
    Scheme("ring, Fat-Tree, d NICs", Algorithm("ring"), lambda n, d: _fat_tree(n, d, d)),
    Scheme("HiPS, BCube(n,d)", Algorithm(), _bcube),
    Scheme("HiPS, torus, one-way rings", Algorithm(one_way=True), _torus),
    Scheme("HiPS, torus, two-way rings", Algorithm(), _torus),
)


def factor(scheme: Scheme, n: int, d: int) -> float:
    """The bandwidth term of a scheme in units of W/B, step by step, and exact."""
    shape = scheme.shape(n, d)
    profile = demand.at_ports(scheme.algorithm, shape, ELEMENTS)
    return barrier(profile, 1, 8.0, Constants()).bandwidth_s / ELEMENTS


def steps(scheme: Scheme, n: int, d: int) -> int:
    """The number of steps, each of which adds a latency."""
    return demand.at_ports(scheme.algorithm, scheme.shape(n, d), ELEMENTS).steps


def rows() -> Iterator[tuple[str, ...]]:
    """The table: one row for each scheme, one column for each n and d."""
    yield ("scheme", *(f"N = {n**d} ({n}^{d})" for d in LEVELS for n in SIDES[:3]))
    for scheme in SCHEMES:
        cells = (f"{factor(scheme, n, d):.3f} ({steps(scheme, n, d)})" for d in LEVELS for n in SIDES[:3])
        yield (scheme.name, *cells)


def reductions() -> Iterator[tuple[str, ...]]:
    """How much less time HiPS takes than a ring on a Fat-Tree, without latency; the same for every side n."""
    yield "fabric", "ports of a server", "against 1 NIC", "against as many NICs"
    side = 8
    for d in LEVELS:
        for scheme in SCHEMES[3:]:
            ports = scheme.shape(side, d).ports_per_server
            fair = Scheme("", Algorithm("ring"), lambda n, d, ports=ports: _fat_tree(n, d, ports))  # type: ignore[misc]
            ours = factor(scheme, side, d)
            others = (factor(other, side, d) for other in (SCHEMES[0], fair))
            cells = (f"{round(100 * (ours / other - 1), 1) + 0:+.1f} %" for other in others)
            yield (f"{scheme.name}, d = {d}", str(ports), *cells)


def draw(output: Path) -> None:
    """The time over N, for two and for three levels or dimensions."""
    with figure(output, (9.0, 4.0)) as drawn:
        for place, d in enumerate(LEVELS):
            axes = drawn.add_subplot(1, 2, place + 1)
            sides = [n for n in SIDES if n**d <= 4096]
            for scheme in SCHEMES:
                known = [(n**d, factor(scheme, n, d)) for n in sides if prod((n,) * d) <= 8192]
                axes.plot(*zip(*known, strict=True), "o-", markersize=3, label=scheme.name)
            axes.set_xscale("log", base=2)
            axes.set_ylim(0, 2.2)
            axes.set_xlabel("servers")
            axes.set_ylabel("time in W/B")
            axes.set_title(f"d = {d}")
        axes.legend(frameon=False, fontsize="x-small")
        drawn.tight_layout()
