# SPDX-License-Identifier: Apache-2.0
"""A schedule in whole chunks of equal size, and every rank's part of it with its dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod

import numpy as np

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.endpoints import receiver_ports
from hipsnet.collective.hierarchy import Hierarchy
from hipsnet.collective.plan import Route, compile_plan
from hipsnet.collective.schedule import MERGE, Schedule, involving
from hipsnet.errors import InputError
from hipsnet.predict.orbits import require_memory
from hipsnet.topology import Fabric


@dataclass(frozen=True)
class Step:
    """A rank sends, or receives and applies, `count` chunks from chunk `start` on; `after` are earlier steps.

    `lane` is the number of the connection and direction: steps of one lane follow each other. `port` is the
    sender's, and `number` is that of the step in its lane, the same at both ends.
    """

    index: int
    lane: int
    peer: int
    port: int
    number: int
    start: int
    count: int
    sends: bool
    reduces: bool
    after: tuple[int, ...]


def chunk_count(hierarchy: Hierarchy) -> int:
    """Return the least number of chunks of which every piece of every thread is a whole number."""
    found = 1
    edge = Fraction(0)
    for thread in hierarchy.threads:
        pieces = prod(exchange.parts for exchange in thread.exchanges)
        edge += thread.share
        found = lcm(found, (thread.share / pieces).denominator, edge.denominator)
    return found


def chunked(algorithm: Algorithm, fabric: Fabric) -> Schedule:
    """Return the schedule of a vector in which an element stands for a chunk.

    Raises InputError for exchanges that combine values which both ends keep.
    """
    hierarchy = algorithm.hierarchy(fabric.shape)
    require_memory(hierarchy, f"{algorithm.name} on {fabric.shape.title}")
    schedule = algorithm.build(fabric, chunk_count(hierarchy))
    if (schedule.transfers["op"] == MERGE).any():
        raise InputError("exchange full cannot be exported: its sums are not moved; use mesh, ring or ps")
    return schedule


def steps(schedule: Schedule, fabric: Fabric, rank: int) -> list[Step]:
    """Return the steps of a rank in order; the plan is the one that the engine executes, in one piece."""
    entries = receiver_ports(fabric, schedule.transfers)
    routes = list(_routes(schedule, entries, rank))
    connections = {route: number for number, route in enumerate(routes)}
    plan = compile_plan(schedule, rank, connections, entries, max(1, schedule.count))
    after: list[list[int]] = [[] for _ in plan.segments]
    first, released = plan.releases
    for earlier in range(len(plan.segments)):
        for later in released[first[earlier] : first[earlier + 1]].tolist():
            after[later].append(earlier)
    found = []
    for index, segment in enumerate(plan.segments):
        peer, mine, theirs = routes[int(segment["connection"])]
        sends = bool(segment["sends"])
        found.append(
            Step(
                index=index,
                lane=2 * int(segment["connection"]) + (not sends),
                peer=peer,
                port=mine if sends else theirs,
                number=int(segment["number"]),
                start=int(segment["start"]),
                count=int(segment["length"]),
                sends=sends,
                reduces=bool(segment["reduces"]),
                after=tuple(sorted(after[index])),
            )
        )
    return found


def _routes(schedule: Schedule, entries: np.ndarray, rank: int) -> Iterator[Route]:
    """The connections of a rank: (peer, own port, the peer's port)."""
    mask = involving(schedule.transfers, rank)
    rows = zip(schedule.transfers[mask], entries[mask].tolist(), strict=True)
    found = {
        (int(row["dst"]), int(row["level"]), entry)
        if row["src"] == rank
        else (int(row["src"]), entry, int(row["level"]))
        for row, entry in rows
    }
    yield from sorted(found)
