# SPDX-License-Identifier: Apache-2.0
"""All fabrics that can be built from given parts, with what they cost and how fast they synchronize."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from math import prod

from hipsnet.collective.algorithms import Algorithm
from hipsnet.errors import InputError
from hipsnet.predict.closed import Constants
from hipsnet.predict.demand import ports_suffice
from hipsnet.predict.prediction import Call, Subject, closed_forms, defined
from hipsnet.topology import KINDS, Fabric, FabricKind, Topology, build
from hipsnet.topology.kinds import Census

ALGORITHMS = ("hips", "ring", "mesh")
"""Those that are compared: ps is never the best for large vectors."""

ROUTED_SERVERS = 256
"""Up to this size, the loads of algorithms whose ports do not describe them are counted along the routes."""


@dataclass(frozen=True)
class Parts:
    """What is there: servers with at most `ports` ports of `rate_bps` bit/s, and switches of `switch_ports` ports.

    Raises InputError for a number out of range.
    """

    servers: int
    ports: int
    switch_ports: int
    rate_bps: int

    def __post_init__(self) -> None:
        for name, low, high in (("servers", 2, 1 << 17), ("ports", 1, 16), ("switch_ports", 0, 1024)):
            if not low <= getattr(self, name) <= high:
                flag = name.replace("_", "-")
                raise InputError(f"--{flag}: found {getattr(self, name)}; allowed: {low} to {high}")


@dataclass(frozen=True)
class Prices:
    """Prices in any currency: of a server's port, of a cable, of a switch, and of each port in use on a switch."""

    port: float = 0.0
    cable: float = 0.0
    switch: float = 0.0
    switch_port: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) < float("inf"):
                flag = field.name.replace("_", "-")
                found = getattr(self, field.name)
                raise InputError(f"--price-{flag}: found {found}; allowed: 0 or a positive number")

    def cost(self, shape: FabricKind) -> float:
        """Return what a fabric costs without its servers."""
        census, ports = shape.census, prod(shape.radices) * shape.ports_per_server
        plugs = 2 * census.cables - ports if census.switches else 0
        return (
            self.port * ports
            + self.cable * census.cables
            + self.switch * census.switches
            + self.switch_port * plugs
        )


@dataclass(frozen=True)
class Candidate:
    """A fabric that fits: its best algorithm, the pipelined time, and the least slowdown by one dead port.

    `algorithm` and `time_s` are None where the load cannot be computed; `slowdown` is None where a server with a
    dead port is cut off.
    """

    shape: FabricKind
    census: Census
    cost: float
    algorithm: str | None
    time_s: float | None
    limit_s: float
    slowdown: float | None


def candidates(
    parts: Parts,
    prices: Prices,
    counts: tuple[int, ...],
    constants: Constants,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Candidate]:
    """Return all fabrics that fit, the fastest first; `counts` are the vectors' lengths in float32 elements."""
    shapes = [
        shape
        for kind in KINDS
        for shape in kind.fitting(parts.servers, parts.ports, parts.switch_ports)
        if shape.misfit() is None
    ]
    found = []
    for number, shape in enumerate(shapes):
        progress(number, len(shapes))
        found.append(_candidate(shape, parts, prices, counts, constants))
    return sorted(found, key=lambda one: (one.time_s or float("inf"), one.cost, one.shape.title))


def next_sizes(parts: Parts) -> Iterator[FabricKind]:
    """Yield, for each kind that does not fit, its smallest larger shape with at most twice the servers."""
    for kind in KINDS:
        sizes = range(parts.servers, 2 * parts.servers + 1)
        shapes = (next(kind.fitting(size, parts.ports, parts.switch_ports), None) for size in sizes)
        first = next(filter(None, shapes), None)
        if first and prod(first.radices) > parts.servers:
            yield first


def slowdown(servers: int, ports: int) -> float | None:
    """Return the least factor by which one server's dead port slows a synchronization; None if it is cut off.

    The server owns no piece then: it only sends its vector and receives the sum, through one port less, while the
    others take over its pieces.
    """
    if ports == 1:
        return None
    return max(1.0, ports * servers / ((ports - 1) * 2 * (servers - 1)))


def _candidate(
    shape: FabricKind, parts: Parts, prices: Prices, counts: tuple[int, ...], constants: Constants
) -> Candidate:
    times = _times(shape, parts, counts, constants)
    best = min(times, key=lambda name: times[name], default=None)
    bytes_, ports = 4 * sum(counts), shape.ports_per_server
    return Candidate(
        shape=shape,
        census=shape.census,
        cost=prices.cost(shape),
        algorithm=best,
        time_s=times[best] if best else None,
        limit_s=2 * (parts.servers - 1) / parts.servers * bytes_ * 8 / (parts.rate_bps * ports),
        slowdown=slowdown(parts.servers, ports),
    )


def _times(
    shape: FabricKind, parts: Parts, counts: tuple[int, ...], constants: Constants
) -> dict[str, float]:
    """The times of the algorithms whose loads the ports describe; if there are none, along the routes."""
    subject = Subject(shape.kind, shape, parts.rate_bps, 0.0, lambda: _built(shape))
    known = [algorithm for algorithm in map(Algorithm, ALGORITHMS) if defined(shape, algorithm)]
    if direct := [one for one in known if ports_suffice(one.hierarchy(shape), shape)]:
        known = direct
    elif parts.servers > ROUTED_SERVERS:
        return {}
    else:
        counts = (sum(counts),)  # one vector: routes take longer to follow than latencies are worth
    return {one.name: closed_forms(subject, Call(one, counts), constants).pipelined.total_s for one in known}


def _built(shape: FabricKind) -> Fabric:
    return build(Topology.model_validate({"version": 1, "name": "plan", "fabric": shape.model_dump()}))
