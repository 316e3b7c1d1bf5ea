# SPDX-License-Identifier: Apache-2.0
"""A job in memory: the core of every rank of a fabric, and the calls submitted to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.endpoints import receiver_ports
from hipsnet.collective.plan import Route, chunk_elements, compile_plan
from hipsnet.engine.plans import PlanArrays
from hipsnet.engine.reduction import DTYPES
from hipsnet.stack.roce.core import Core
from hipsnet.topology import Fabric
from tests.collective.shapes import fabric as fabric_of

OPERATIONS = ("sum", "prod", "max", "min", "mean")
MS = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Limits of the engines of a job; small values reach every limit."""

    slots: int = 4
    slot_bytes: int = 256
    eager_slots: int = 4
    eager_bytes: int = 32
    reserve: int = 1
    timeout_ms: int = 1000


@dataclass(frozen=True)
class Call:
    """An all-reduce of `count` elements."""

    count: int
    dtype: np.dtype[Any] = DTYPES[5]
    operation: str = "sum"
    seed: int = 0

    def vector(self, rank: int) -> np.ndarray:
        """Whole numbers that every dtype adds and multiplies exactly over sixteen ranks."""
        return (
            np.random.default_rng((self.seed, rank, self.count)).integers(1, 3, self.count).astype(self.dtype)
        )

    def result(self, ranks: int) -> np.ndarray:
        rows = np.stack([self.vector(rank) for rank in range(ranks)]).astype(np.float64)
        if self.operation == "mean":
            total = rows.sum(0).astype(self.dtype)
            return total // ranks if self.dtype.kind == "i" else total / self.dtype.type(ranks)
        found: np.ndarray = getattr(rows, self.operation)(0).astype(self.dtype)
        return found


@dataclass(eq=False)
class Submitted:
    """A call of one rank, and the memory that it uses."""

    sequence: int
    arrays: list[np.ndarray]
    keeps: list[Any]

    @property
    def array(self) -> np.ndarray:
        """The whole vector."""
        return np.concatenate(self.arrays)


@dataclass(eq=False)
class World:
    """The ranks of a fabric, joined by a scripted wire."""

    core: Core
    shape: str
    algorithm: Algorithm = field(default_factory=Algorithm)
    limits: Limits = field(default_factory=Limits)
    seed: int = 0

    def __post_init__(self) -> None:
        ffi, lib = self.core
        self.fabric: Fabric = fabric_of(self.shape)
        self.ranks = len(self.fabric.servers)
        self.routes = routes_of(self.shape, self.algorithm)
        self.handle = lib.world_create(self.ranks, self.seed)
        self.cores = []
        self.calls: list[list[Submitted]] = [[] for _ in range(self.ranks)]
        for rank, routes in enumerate(self.routes):
            config = ffi.new("struct core_config *")
            peers = ffi.new("u32[]", [peer for peer, _, _ in routes] or 1)
            levels = ffi.new("u32[]", [mine for _, mine, _ in routes] or 1)
            config.rank, config.ranks, config.connections = rank, self.ranks, len(routes)
            config.peer_rank, config.peer_level = peers, levels
            for name in ("slots", "slot_bytes", "eager_slots", "eager_bytes", "reserve"):
                setattr(config, name, getattr(self.limits, name))
            config.timeout_ns = self.limits.timeout_ms * MS
            config.warn_ns, config.heartbeat_ns = config.timeout_ns // 2, config.timeout_ns // 8
            links = [
                n for peer, mine, theirs in routes for n in (peer, self.routes[peer][rank, theirs, mine])
            ]
            found = lib.world_add(self.handle, rank, config, ffi.new("u32[]", links or 1))
            assert found != ffi.NULL
            self.cores.append(found)
        assert lib.world_start(self.handle)

    def close(self) -> None:
        self.core.lib.world_destroy(self.handle)

    def submit(
        self, rank: int, call: Call, cuts: tuple[int, ...] = (), bounds: Sequence[int] = ()
    ) -> Submitted | None:
        """Submit a call; None if the window is full.

        Segments are cut at `cuts`; on this rank, the vector is divided into arrays at `bounds`, some of them.
        """
        ffi, lib = self.core
        chunk = max(1, min(self.limits.slot_bytes // call.dtype.itemsize, call.count))
        arrays = plan_of(self.shape, self.algorithm, rank, call.count, call.dtype.itemsize, chunk, cuts)
        plan = arrays.struct(self.core)
        parts = [part.copy() for part in np.split(call.vector(rank), list(bounds))]
        signature = ffi.new("struct signature *")
        signature.count = call.count
        signature.dtype = DTYPES.index(call.dtype)
        signature.operation = OPERATIONS.index(call.operation)
        buffers = ffi.new("struct call_buffer[]", len(parts))
        for buffer, first, part in zip(buffers, (0, *bounds), parts, strict=True):
            buffer.memory, buffer.first = ffi.cast("void *", part.ctypes.data), first
            buffer.count, buffer.has_result = len(part), True
        sequence = lib.core_submit(
            self.cores[rank], plan, signature, buffers, len(parts), lib.world_now(self.handle)
        )
        if not sequence:
            return None
        submitted = Submitted(int(sequence), parts, [arrays, plan])
        self.calls[rank].append(submitted)
        lib.world_push(self.handle, rank)
        return submitted

    def state(self, rank: int, submitted: Submitted) -> int:
        return int(self.core.lib.core_state(self.cores[rank], submitted.sequence))

    def run(self, steps: int = 1_000_000) -> int:
        """Deliver until nothing is in flight; return the number of deliveries."""
        for step in range(steps):
            if not self.core.lib.world_step(self.handle):
                return step
        raise AssertionError("it does not come to an end")

    def failure(self, rank: int) -> Any:
        return self.core.lib.core_failure(self.cores[rank])

    def connection(self, rank: int, peer: int) -> int:
        return next(number for (other, _, _), number in self.routes[rank].items() if other == peer)


@cache
def routes_of(shape: str, algorithm: Algorithm) -> tuple[dict[Route, int], ...]:
    """The connections of every rank, numbered."""
    fabric = fabric_of(shape)
    schedule = algorithm.build(fabric, max(1, len(fabric.servers)) ** 2 * 64)
    ports = receiver_ports(fabric, schedule.transfers)
    routes: tuple[dict[Route, int], ...] = tuple({} for _ in fabric.servers)
    for row, theirs in zip(schedule.transfers, ports, strict=True):
        src, dst, mine = int(row["src"]), int(row["dst"]), int(row["level"])
        routes[src].setdefault((dst, mine, int(theirs)), len(routes[src]))
        routes[dst].setdefault((src, int(theirs), mine), len(routes[dst]))
    return routes


@cache
def plan_of(
    shape: str,
    algorithm: Algorithm,
    rank: int,
    count: int,
    itemsize: int,
    most: int,
    cuts: tuple[int, ...] = (),
) -> PlanArrays:
    """The plan of a rank, in chunks of at most `most` elements."""
    fabric, routes = fabric_of(shape), routes_of(shape, algorithm)
    schedule = algorithm.build(fabric, count)
    ports = receiver_ports(fabric, schedule.transfers)
    chunk = min(most, chunk_elements(schedule, most * itemsize, itemsize))
    return compile_plan(schedule, rank, routes[rank], ports, chunk, cuts)
