# SPDX-License-Identifier: Apache-2.0
"""The prediction of one synchronization: limit, closed forms, fluid time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from hipsnet.collective import limits
from hipsnet.collective.algorithms import Algorithm
from hipsnet.errors import InputError
from hipsnet.predict import closed, demand
from hipsnet.predict.closed import Constants, Terms
from hipsnet.predict.conditions import Conditions
from hipsnet.predict.network import Network
from hipsnet.predict.orbits import require_memory
from hipsnet.predict.profile import Profile
from hipsnet.predict.simulation import simulate
from hipsnet.topology import Fabric, FabricKind

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Subject:
    """A fabric to predict for: its shape, the rate of its ports in bit/s, the delay of a cable.

    `build` returns the fabric itself, which is built only if routes have to be followed.
    """

    name: str
    shape: FabricKind
    rate_bps: int
    cable_delay_s: float
    build: Callable[[], Fabric]
    seed: int = 0

    @cached_property
    def network(self) -> Network:
        """The cables and routes."""
        return Network(self.build(), self.seed)

    @property
    def step_delay_s(self) -> float:
        """The delay of the cables that a message passes at most in one step."""
        cables = (
            (2 if self.shape.switch_ports else 1) if self.shape.hips else self.shape.census.diameter_cables
        )
        return self.cable_delay_s * cables


@dataclass(frozen=True)
class Call:
    """A synchronization of vectors of `counts` elements of `item_bytes` bytes, one after the other."""

    algorithm: Algorithm
    counts: tuple[int, ...]
    item_bytes: int = 4
    chunk_bytes: int = CHUNK_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of all vectors."""
        return sum(self.counts) * self.item_bytes


@dataclass(frozen=True)
class Forms:
    """Times in seconds, in GenModel's terms: with barriers between the steps, and pipelined.

    `by_routes`: the loads are those of the cables along the routes, because the ports do not describe them.
    """

    limit_s: float
    barrier: Terms
    pipelined: Terms
    steps: int
    messages: int
    incast: int
    port_bytes: float
    by_routes: bool = field(default=False)


def closed_forms(subject: Subject, call: Call, constants: Constants | None = None) -> Forms:
    """Return the closed forms. Raises InputError if the algorithm is not defined, or its load is out of reach."""
    given = constants or Constants()
    terms = Constants(**{**vars(given), "latency_s": given.latency_s + subject.step_delay_s})
    demands = [_profile(subject, call.algorithm, count) for count in call.counts]
    barriers, overlapped = [], []
    for profile in demands:
        barriers.append(closed.barrier(profile, call.item_bytes, subject.rate_bps, terms))
        overlapped.append(
            closed.pipelined(profile, call.item_bytes, subject.rate_bps, terms, call.chunk_bytes)
        )
    return Forms(
        limit_s=float(limits.bound_of(subject.shape) * 8 * call.bytes / subject.rate_bps),
        barrier=_sum(barriers),
        pipelined=_sum(overlapped),
        steps=sum(profile.steps for profile in demands),
        messages=sum(profile.messages for profile in demands),
        incast=max((int(profile.senders.max(initial=0)) for profile in demands), default=0),
        port_bytes=sum(profile.busiest for profile in demands) * call.item_bytes,
        by_routes=any(profile.by_routes for profile in demands),
    )


def fluid_s(
    subject: Subject,
    call: Call,
    conditions: Conditions,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """Return the simulated time in seconds; vectors of equal length are simulated once.

    Raises TooLarge if the schedule takes too much memory, and as `simulate`.
    """
    hierarchy = call.algorithm.hierarchy(subject.shape)
    require_memory(hierarchy, f"{call.algorithm.name} on {subject.shape.title}")

    @lru_cache
    def one(count: int) -> float:
        schedule = call.algorithm.build(subject.network.fabric, count)
        return simulate(
            schedule,
            subject.network,
            subject.rate_bps,
            call.item_bytes,
            call.chunk_bytes,
            conditions,
            progress,
        ).time_s

    return sum(one(count) for count in call.counts)


def _profile(subject: Subject, algorithm: Algorithm, count: int) -> Profile:
    hierarchy = algorithm.hierarchy(subject.shape)
    if demand.ports_suffice(hierarchy, subject.shape):
        return demand.at_ports(algorithm, subject.shape, count)
    require_memory(hierarchy, f"{algorithm.name} on {subject.shape.title}")  # before the fabric is built
    return demand.along_routes(algorithm, subject.network, count)


def _sum(terms: list[Terms]) -> Terms:
    names = Terms.__dataclass_fields__
    return Terms(**{name: sum(getattr(one, name) for one in terms) for name in names})


def defined(shape: FabricKind, algorithm: Algorithm) -> bool:
    """Whether the algorithm exists on fabrics of this shape."""
    try:
        algorithm.hierarchy(shape)
    except InputError:
        return False
    return True
