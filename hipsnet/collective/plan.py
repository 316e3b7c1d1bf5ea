# SPDX-License-Identifier: Apache-2.0
"""One rank's part of a schedule, cut into segments small enough to pipeline, with their dependencies.

The vector is cut at every boundary of every transfer, and further into chunks. A segment is a run of chunks of
one transfer that is sent as one write. On each rank, the segments that touch a chunk form a chain: a send waits
for the last receive into its chunks; a receive waits for the last receive and for every send since then. There
are no other dependencies and no barrier between stages. Contributions are always combined in the schedule's
order, independent of the order of arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.schedule import COPY, MERGE, Schedule, involving
from hipsnet.engine.plans import FOLD_LAST, FOLD_NEXT, FOLD_ROOT, SEGMENT, PlanArrays, Rows

CHUNKS_PER_TRANSFER = 4
"""Minimum number of segments per transfer, so that the next stage can start before the transfer ends."""

SMALLEST_CHUNK_BYTES = 16 << 10
"""Below this size, the overhead per segment exceeds the gain of pipelining."""

Route = tuple[int, int, int]
"""(peer's rank, local port, peer's port): the identity of a connection."""

Numbers = NDArray[np.int64]


def chunk_elements(schedule: Schedule, chunk_bytes: int, itemsize: int) -> int:
    """Return the size of the largest segment in elements; the same number on every rank."""
    lengths = schedule.transfers["length"]
    largest = int(lengths.max()) * itemsize if len(lengths) else 0
    size = min(chunk_bytes, max(SMALLEST_CHUNK_BYTES, -(-largest // CHUNKS_PER_TRANSFER)))
    return max(1, size // itemsize)


def compile_plan(
    schedule: Schedule,
    rank: int,
    connections: Mapping[Route, int],
    receiver_ports: NDArray[np.int64],
    chunk: int,
    cuts: Sequence[int] = (),
) -> PlanArrays:
    """Return the plan of `rank`.

    `receiver_ports[i]` is the receiver's port of transfer i; `chunk` is the size of the largest segment in
    elements. No segment contains an element on both sides of one of `cuts` (elements of the vector). All
    arguments but `rank` and `connections` must be the same on every rank.
    """
    bounds = np.unique(np.asarray(cuts, np.int64))
    edges = _chunk_edges(schedule, bounds, chunk)
    rows, sends = _events_of(schedule, rank)
    transfers = schedule.transfers[rows]
    event, first, last = _runs(edges, bounds, transfers, chunk)
    segments = np.zeros(len(event), SEGMENT)
    segments["start"], segments["length"] = edges[first], edges[last] - edges[first]
    segments["connection"] = _connections_of(transfers, sends, receiver_ports[rows], connections)[event]
    segments["thread"], segments["stage"] = transfers["thread"][event], transfers["stage"][event]
    segments["sends"], segments["reduces"] = sends[event], transfers["op"][event] != COPY
    _fold(segments, transfers, event, rank)
    waits, releases = _chains(segments["sends"], first, last)
    lanes = [
        _lane(segments, np.flatnonzero(mask), len(connections)) for mask in (sends[event], ~sends[event])
    ]
    lengths = schedule.transfers["length"]
    longest = min(int(lengths.max()), chunk) if len(lengths) else 0
    return PlanArrays(schedule.count, longest, len(connections), segments, waits, releases, *lanes)


def _events_of(schedule: Schedule, rank: int) -> tuple[Numbers, NDArray[np.bool_]]:
    """(transfers, whether this rank sends them), in order; sends first: a round sends the data from before it."""
    transfers = schedule.transfers
    rows = np.flatnonzero(involving(transfers, rank))
    receives = transfers["dst"][rows] == rank
    order = np.lexsort((rows, receives, transfers["round"][rows], transfers["stage"][rows]))
    return rows[order], ~receives[order]


def _connections_of(
    transfers: NDArray[Any],
    sends: NDArray[np.bool_],
    receiver_ports: NDArray[np.int64],
    connections: Mapping[Route, int],
) -> NDArray[np.int64]:
    """The connection of each transfer that this rank sends or receives."""
    mine = np.where(sends, transfers["level"], receiver_ports)
    theirs = np.where(sends, receiver_ports, transfers["level"])
    peers = np.where(sends, transfers["dst"], transfers["src"])
    routes = zip(peers.tolist(), mine.tolist(), theirs.tolist(), strict=True)
    return np.array([connections[route] for route in routes], np.int64)


def _chunk_edges(schedule: Schedule, bounds: Numbers, chunk: int) -> Numbers:
    starts = schedule.transfers["offset"].astype(np.int64)
    cuts = np.unique(np.concatenate([starts, starts + schedule.transfers["length"]]))
    if len(cuts):
        cuts = np.union1d(cuts, bounds[(bounds > cuts[0]) & (bounds < cuts[-1])])
    chunks = -(-np.diff(cuts) // chunk)
    inner = np.repeat(cuts[:-1], chunks) + chunk * _counted(chunks)
    return np.concatenate([inner, cuts[-1:]])


def _counted(lengths: Numbers) -> Numbers:
    """0, 1, ... below the first length, then below the second, and so on."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(starts, lengths)


def _runs(
    edges: Numbers, bounds: Numbers, transfers: NDArray[Any], chunk: int
) -> tuple[Numbers, Numbers, Numbers]:
    """Cut each transfer into runs of whole chunks of at most `chunk` elements, in order.

    Returns (transfer, first edge, last edge) of each run.
    """
    follows = np.searchsorted(edges, edges + chunk, side="right") - 1
    if len(bounds):
        next_bound = np.append(bounds, np.iinfo(np.int64).max)[np.searchsorted(bounds, edges, side="right")]
        follows = np.minimum(follows, np.searchsorted(edges, next_bound))
    at = np.searchsorted(edges, transfers["offset"])
    end = np.searchsorted(edges, transfers["offset"] + transfers["length"])
    number, pieces = np.arange(len(transfers)), []
    while len(number):
        last = np.minimum(follows[at], end)
        pieces.append((number, at, last))
        is_longer = last < end
        number, at, end = number[is_longer], last[is_longer], end[is_longer]
    if not pieces:
        return (np.empty(0, np.int64),) * 3
    transfer, first, last = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.argsort(transfer, kind="stable")
    return transfer[order], first[order], last[order]


def _fold(segments: NDArray[Any], transfers: NDArray[Any], event: Numbers, rank: int) -> None:
    """Set how the merges of lower ranks are combined; those of one (stage, round, thread) and range together."""
    merges = np.flatnonzero(
        ~segments["sends"] & (transfers["op"][event] == MERGE) & (transfers["src"][event] < rank)
    )
    if not len(merges):
        return
    of, row = segments[merges], transfers[event[merges]]
    keys = [of["start"], of["length"], row["thread"], row["round"], row["stage"]]
    order = np.lexsort((row["src"], *keys))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    is_last = np.append(is_first[1:], True)
    merges = merges[order]
    segments["root"][merges] = merges[is_first][np.cumsum(is_first) - 1]
    segments["fold"][merges] = np.where(is_last, FOLD_LAST, np.where(is_first, FOLD_ROOT, FOLD_NEXT))


def _chains(sends: NDArray[np.bool_], first: Numbers, last: Numbers) -> tuple[NDArray[np.uint32], Rows]:
    """The dependencies of the segments, in order, on chunks [first, last): (number of waits, releases)."""
    count, touched = len(sends), last - first
    segment = np.repeat(np.arange(count), touched)
    chunk = np.repeat(first, touched) + _counted(touched)
    order = np.argsort(chunk, kind="stable")
    segment, chunk = segment[order], chunk[order]
    position = np.arange(len(segment))
    receives = ~sends[segment]
    # The last receive before each position, and the next one after it.
    latest = np.maximum.accumulate(np.where(receives, position, -1))
    before = np.append(-1, latest[:-1])[: len(position)]
    nearest = np.minimum.accumulate(np.where(receives, position, len(position))[::-1])[::-1]
    after = np.append(nearest[1:], len(position))[: len(position)]
    has_before = (before >= 0) & (chunk[before] == chunk)
    has_after = ~receives & (after < len(position))
    has_after[has_after] = chunk[after[has_after]] == chunk[has_after]
    earlier = np.concatenate([segment[before[has_before]], segment[has_after]])
    later = np.concatenate([segment[has_before], segment[after[has_after]]])
    pairs = np.unique(earlier * count + later) if len(earlier) else np.empty(0, np.int64)
    earlier, later = pairs // max(1, count), pairs % max(1, count)
    return np.bincount(later, minlength=count).astype(np.uint32), _rows(earlier, later, count)


def _lane(segments: NDArray[Any], chosen: Numbers, connections: int) -> Rows:
    """Number the chosen segments by connection; return them as rows."""
    chosen = chosen[np.argsort(segments["connection"][chosen], kind="stable")]
    first, rows = _rows(segments["connection"][chosen], chosen, connections)
    segments["number"][chosen] = _counted(first[1:].astype(np.int64) - first[:-1])
    return first, rows


def _rows(row: NDArray[Any], values: Numbers, count: int) -> Rows:
    """`values` in `count` rows; `row` is sorted."""
    first = np.searchsorted(row, np.arange(count + 1)).astype(np.uint32)
    return first, values.astype(np.uint32)
