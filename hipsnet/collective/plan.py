# SPDX-License-Identifier: Apache-2.0
"""One rank's part of a schedule, cut into segments small enough to pipeline, with their dependencies.

The vector is cut at every boundary of every transfer, and further into chunks. A segment is a run of chunks of
one transfer that is sent as one write. On each rank, the segments that touch a chunk form a chain: a send waits
for the last receive into its chunks; a receive waits for the last receive and for every send since then. There
are no other dependencies and no barrier between stages. Contributions are always combined in the schedule's
order, independent of the order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hipsnet.collective.schedule import REDUCE, Schedule, involving

CHUNKS_PER_TRANSFER = 4
"""Minimum number of segments per transfer, so that the next stage can start before the transfer ends."""

SMALLEST_CHUNK_BYTES = 16 << 10
"""Below this size, the overhead per segment exceeds the gain of pipelining."""

Route = tuple[int, int, int]
"""(peer's rank, local port, peer's port): the identity of a connection."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Elements [start, stop) sent over one connection; `number` counts the segments in that direction."""

    index: int
    connection: int
    number: int
    start: int
    stop: int
    sends: bool
    reduces: bool
    thread: int
    stage: int


@dataclass(frozen=True)
class Plan:
    """One rank's segments: segment i depends on `waits[i]` others; the segments `releases[i]` depend on it.

    No segment is longer than `chunk` elements.
    """

    count: int
    chunk: int
    segments: tuple[Segment, ...]
    waits: tuple[int, ...]
    releases: tuple[tuple[int, ...], ...]
    sends: tuple[tuple[Segment, ...], ...]  # by connection, in the order of sending
    receives: tuple[tuple[Segment, ...], ...]  # by connection, in the order of arrival


def chunk_elements(schedule: Schedule, chunk_bytes: int, itemsize: int) -> int:
    """Return the size of the largest segment in elements; the same number on every rank."""
    lengths = schedule.transfers["length"]
    largest = int(lengths.max()) * itemsize if len(lengths) else 0
    size = min(chunk_bytes, max(SMALLEST_CHUNK_BYTES, -(-largest // CHUNKS_PER_TRANSFER)))
    return max(1, size // itemsize)


def compile_plan(
    schedule: Schedule, rank: int, connections: dict[Route, int], receiver_ports: Sequence[int], chunk: int
) -> Plan:
    """Return the plan of `rank`.

    `receiver_ports[i]` is the receiver's port of transfer i; `chunk` is the size of the largest segment in
    elements.
    """
    edges = _chunk_edges(schedule, chunk)
    events = _events_of(schedule, rank)
    segments: list[Segment] = []
    chain = _Chain(len(edges))
    lanes: tuple[list[list[Segment]], list[list[Segment]]] = (
        [[] for _ in connections],
        [[] for _ in connections],
    )
    for transfer, sends in events:
        row = schedule.transfers[transfer]
        mine, theirs = int(row["level"]), receiver_ports[transfer]
        route = (int(row["dst"]), mine, theirs) if sends else (int(row["src"]), theirs, mine)
        connection = connections[route]
        lane = lanes[0 if sends else 1][connection]
        for first, last in _runs(edges, int(row["offset"]), int(row["length"]), chunk):
            segment = Segment(
                len(segments),
                connection,
                len(lane),
                int(edges[first]),
                int(edges[last]),
                sends,
                int(row["op"]) == REDUCE,
                int(row["thread"]),
                int(row["stage"]),
            )
            segments.append(segment)
            lane.append(segment)
            chain.add(segment.index, sends, range(first, last))
    waits, releases = chain.links(len(segments))
    sends_by_connection, receives_by_connection = (tuple(map(tuple, lane)) for lane in lanes)
    return Plan(
        schedule.count, chunk, tuple(segments), waits, releases, sends_by_connection, receives_by_connection
    )


def _events_of(schedule: Schedule, rank: int) -> list[tuple[int, bool]]:
    """(transfer, whether this rank sends it), in order; sends first: a round sends the data from before it."""
    transfers = schedule.transfers
    rows = np.flatnonzero(involving(transfers, rank))
    receives = transfers["dst"][rows] == rank
    order = np.lexsort((rows, receives, transfers["round"][rows], transfers["stage"][rows]))
    return [(int(rows[i]), not bool(receives[i])) for i in order]


def _chunk_edges(schedule: Schedule, chunk: int) -> np.ndarray:
    starts = schedule.transfers["offset"].astype(np.int64)
    cuts = np.unique(np.concatenate([starts, starts + schedule.transfers["length"].astype(np.int64)]))
    inner = [np.arange(a, b, chunk) for a, b in pairwise(cuts)]
    return np.concatenate([*inner, cuts[-1:]])


def _runs(edges: np.ndarray, offset: int, length: int, chunk: int) -> list[tuple[int, int]]:
    """Cut [offset, offset + length) into runs of whole chunks of at most `chunk` elements: (first, last edge)."""
    first, end = (int(i) for i in np.searchsorted(edges, (offset, offset + length)))
    runs = []
    while first < end:
        last = int(np.searchsorted(edges, edges[first] + chunk, side="right")) - 1
        runs.append((first, min(last, end)))
        first = runs[-1][1]
    return runs


class _Chain:
    """Builds the dependencies: tracks the last receive into each chunk and the sends since then."""

    def __init__(self, chunks: int) -> None:
        self._last_receive = [-1] * chunks
        self._readers: list[list[int]] = [[] for _ in range(chunks)]
        self._before: list[set[int]] = []

    def add(self, segment: int, sends: bool, chunks: range) -> None:
        before = {self._last_receive[c] for c in chunks}
        for c in chunks:
            if sends:
                self._readers[c].append(segment)
            else:
                before.update(self._readers[c])
                self._readers[c] = []
                self._last_receive[c] = segment
        before.discard(-1)
        self._before.append(before)

    def links(self, segments: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        releases: list[list[int]] = [[] for _ in range(segments)]
        for segment, before in enumerate(self._before):
            for earlier in before:
                releases[earlier].append(segment)
        return tuple(map(len, self._before)), tuple(map(tuple, releases))
