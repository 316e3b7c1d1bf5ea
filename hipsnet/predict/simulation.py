# SPDX-License-Identifier: Apache-2.0
"""A collective simulated as fluid flows: the plan's segments, the fabric's routes, shared max-min fairly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.plan import chunk_elements
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.predict.conditions import Conditions
from hipsnet.predict.fluid.flows import Finished, Lanes, Program, Stuck, Transfers, compiled, run
from hipsnet.predict.network import Network, Rows
from hipsnet.predict.profile import step_numbers
from hipsnet.topology import find_server

Progress = Callable[[int, int], None]


def simulate(
    schedule: Schedule,
    network: Network,
    rate_bps: float,
    item_bytes: int,
    chunk_bytes: int | None,
    conditions: Conditions | None = None,
    progress: Progress = lambda done, total: None,
) -> Finished:
    """Return the end of a collective, without credits or losses.

    Transfers are cut into segments of at most `chunk_bytes` as plan.py does it; None does not cut them.

    `rate_bps` is that of every cable, in each direction. Raises InputError where a name is unknown, or where a dead
    cable stops the collective.
    """
    under = conditions or Conditions()
    if not len(schedule.transfers):
        return Finished(0.0)
    ends, lane = np.unique(_keys(network, schedule.transfers), return_inverse=True)
    lanes_in_all = len(ends) + len(under.background)
    program = _program(schedule, lane, lanes_in_all, item_bytes, chunk_bytes)
    lanes = _lanes(network, _ends(network, ends), rate_bps, under)
    try:
        return run(lanes, program, item_bytes, under.quantum_s, progress=progress)
    except Stuck as stop:
        raise _stopped(network, lanes, stop.lane) from None


def _keys(network: Network, transfers: NDArray[Any]) -> NDArray[np.int64]:
    """One number for each direction of each connection: (src, port, dst)."""
    ranks, ports = len(network.fabric.servers), len(network.fabric.servers[0].ports)
    out = transfers["src"].astype(np.int64) * ports + transfers["level"].astype(np.int64)
    keys: NDArray[np.int64] = out * ranks + transfers["dst"]
    return keys


def _ends(network: Network, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """The inverse of `_keys`: src, port, dst."""
    ranks, ports = len(network.fabric.servers), len(network.fabric.servers[0].ports)
    return keys // ranks // ports, keys // ranks % ports, keys % ranks


def _program(
    schedule: Schedule, lane: NDArray[np.int64], lanes: int, item_bytes: int, chunk_bytes: int | None
) -> Program:
    transfers = schedule.transfers
    chunk = chunk_elements(schedule, chunk_bytes, item_bytes) if chunk_bytes else max(1, schedule.count)
    start, stop = transfers["offset"], transfers["offset"] + transfers["length"]
    cut = _cuts(np.unique(np.concatenate([start, stop])), chunk)
    given = Transfers(
        ranks=schedule.world_size,
        src=np.ascontiguousarray(transfers["src"]),
        dst=np.ascontiguousarray(transfers["dst"]),
        step=step_numbers(transfers)[0].astype(np.uint32),
        begin=np.searchsorted(cut, start).astype(np.uint32),
        end=np.searchsorted(cut, stop).astype(np.uint32),
        lane=lane,
        cut=cut.astype(np.uint64),
    )
    return compiled(given, chunk, lanes)


def _cuts(boundaries: NDArray[np.int64], chunk: int) -> NDArray[np.int64]:
    """Cut the ranges between boundaries into pieces of `chunk` elements, each from its start, as plan.py does."""
    pieces = -(-np.diff(boundaries) // chunk)
    number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return np.append(np.repeat(boundaries[:-1], pieces) + chunk * number, boundaries[-1:])


def _lanes(
    network: Network, ends: tuple[NDArray[np.int64], ...], rate_bps: float, under: Conditions
) -> Lanes:
    """The lanes of the collective, then those of the background; cables, then processors, then limits."""
    src, level, dst = (np.append(ends[i], column) for i, column in enumerate(_background(network, under)))
    first, cable = network.routes(src, level, dst)
    capacity = [np.full(network.cables, rate_bps / 8) * _left(network, under)]
    parts: list[Rows] = [(first, cable)]
    if under.cpu_bps:
        parts.append(_rows(np.stack([src, dst], axis=1) + network.cables))
        capacity.append(under.cpu_bps / 8 * _factors(network, under.slow, 1.0))
    if under.background:
        at = np.arange(len(under.background), dtype=np.int32) + np.int32(sum(map(len, capacity)))
        limits = [flow.rate_bps or rate_bps for flow in under.background]
        empty = np.zeros(len(src) - len(at), np.int64)
        parts.append((np.append(empty, np.arange(len(at) + 1)), at))
        capacity.append(np.array(limits) / 8)
    late = _factors(network, under.late_s, 0.0)
    return Lanes(
        capacity_Bps=np.concatenate(capacity),
        routes=_joined(parts),
        latency_s=under.latency_s + under.cable_delay_s * np.diff(first).astype(np.float64),
        start_s=np.maximum(late[src], late[dst]),
    )


def _background(network: Network, under: Conditions) -> NDArray[np.int64]:
    """The ends of background flows, which use port 0: src, port, dst."""
    pairs = [
        (find_server(network.fabric, flow.source).rank, find_server(network.fabric, flow.target).rank)
        for flow in under.background
    ]
    if loops := [flow.source for flow, (a, b) in zip(under.background, pairs, strict=True) if a == b]:
        raise InputError(f"background: found a flow from {loops[0]} to itself; name two different servers")
    return np.array([(a, 0, b) for a, b in pairs], np.int64).reshape(-1, 3).T


def _left(network: Network, under: Conditions) -> NDArray[np.float64]:
    """The share of its rate that each cable has left."""
    share = np.ones(network.cables)
    for name, value in under.cables.items():
        cable = network.cable_at(name)
        share[[cable, cable ^ 1]] = value
    return share


def _factors(network: Network, given: Mapping[str, float], default: float) -> NDArray[np.float64]:
    """One value for each server."""
    values = np.full(len(network.fabric.servers), default)
    for name, value in given.items():
        values[find_server(network.fabric, name).rank] = value
    return values


def _rows(columns: NDArray[np.int64]) -> Rows:
    return np.arange(len(columns) + 1) * columns.shape[1], columns.ravel().astype(np.int32)


def _joined(parts: list[Rows]) -> Rows:
    """Rows that have the elements of the same row of each part, one after the other."""
    if len(parts) == 1:
        return parts[0]
    lengths = sum(np.diff(first) for first, _ in parts)
    joined = np.concatenate([[0], np.cumsum(lengths)])
    values = np.empty(int(joined[-1]), np.int32)
    at = joined[:-1].copy()
    for first, column in parts:
        count = np.diff(first)
        within = np.arange(len(column)) - np.repeat(first[:-1], count)
        values[np.repeat(at, count) + within] = column
        at += count
    return joined, values


def _stopped(network: Network, lanes: Lanes, lane: int) -> InputError:
    first, cable = lanes.routes
    dead = [link for link in cable[first[lane] : first[lane + 1]] if not lanes.capacity_Bps[link]]
    return InputError(
        f"cables: {network.cable_name(int(dead[0]))} is dead, and the collective needs it; leave a share of its "
        "rate, or choose another fabric"
    )
