# SPDX-License-Identifier: Apache-2.0
"""What an algorithm asks of a fabric, step by step: the input of the closed forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.schedule import COPY, TRANSFER
from hipsnet.predict.orbits import Orbit

Column = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Profile:
    """The demands of an all-reduce of `count` elements; columns have one row per (stage, round).

    `load`: elements that pass through the busiest port or cable in one direction; `busiest` is the largest sum
    over all steps of one port or cable, which is less than the sum of `load` if different ones are the busiest.
    `senders`: the largest number of ranks that send into one port; `longest`: elements of the longest transfer;
    `added`: elements that the busiest rank adds. `messages`: transfers of all ranks. `by_routes`: whether `load`
    was counted along the routes, cable by cable, instead of at the two ends of each transfer.
    """

    count: int
    load: Column
    senders: Column
    longest: Column
    added: Column
    busiest: float
    messages: int
    by_routes: bool = False

    @property
    def steps(self) -> int:
        """The number of (stage, round) pairs that have a transfer."""
        return len(self.load)


def of_orbit(count: int, orbit: Orbit, far_ports: tuple[int, ...]) -> Profile:
    """Return the profile of an algorithm in which all ranks do what the orbit's rank does.

    What a rank receives through a port is what it sends through the ports that lead there.
    """
    transfers = orbit.transfers
    entry = np.array(far_ports)[transfers["level"]]
    ports = len(far_ports)
    step, steps = step_numbers(transfers)
    out = sums(step, transfers["level"], transfers["length"], steps, ports)
    into = sums(step, entry, transfers["length"], steps, ports)
    flows = sums(step, entry, np.ones_like(step), steps, ports)
    added = np.where(transfers["op"] != COPY, transfers["length"], 0)
    return Profile(
        count=count,
        load=np.maximum(out, into).max(axis=1, initial=0),
        senders=flows.max(axis=1, initial=0),
        longest=largest(step, transfers["length"], steps),
        added=sums(step, np.zeros_like(step), added, steps, 1)[:, 0],
        busiest=float(max(out.sum(axis=0).max(initial=0), into.sum(axis=0).max(initial=0))),
        messages=len(transfers) * orbit.multiplicity,
    )


def of_transfers(count: int, transfers: Column, far_ports: tuple[int, ...]) -> Profile:
    """Return the profile of all ranks' transfers, counted at the two ends of each."""
    ports = len(far_ports)
    out = transfers["src"].astype(np.int64) * ports + transfers["level"]
    into = transfers["dst"].astype(np.int64) * ports + np.array(far_ports)[transfers["level"]]
    ends = np.concatenate([2 * out, 2 * into + 1])
    return of_places(count, transfers, np.tile(np.arange(len(transfers)), 2), ends)


def of_places(
    count: int,
    transfers: Column,
    row: NDArray[np.int64],
    place: NDArray[np.int64],
    share: NDArray[np.float64] | None = None,
    by_routes: bool = False,
) -> Profile:
    """Return the profile of transfers of which number `row[i]` passes `share[i]` of its data through `place[i]`.

    Places are numbers of ports or cables with a direction.
    """
    step, steps = step_numbers(transfers)
    length = transfers["length"][row].astype(np.float64) * (1 if share is None else share)
    added = np.where(transfers["op"] != COPY, transfers["length"], 0)
    return Profile(
        count=count,
        load=_busiest(step[row], place, length, steps),
        senders=_busiest(step[row], place, np.ones(len(row)), steps).astype(np.int64),
        longest=largest(step, transfers["length"], steps),
        added=_busiest(step, transfers["dst"].astype(np.int64), added, steps).astype(np.int64),
        busiest=float(_busiest(np.zeros_like(row), place, length, 1).max(initial=0)),
        messages=len(transfers),
        by_routes=by_routes,
    )


def step_numbers(transfers: Column) -> tuple[NDArray[np.int64], int]:
    """Return the number of each transfer's (stage, round), counted from 0 without gaps, and how many there are."""
    assert transfers.dtype == TRANSFER
    found, step = np.unique(
        transfers["stage"].astype(np.int64) << 16 | transfers["round"], return_inverse=True
    )
    return step, len(found)


def sums(step: Column, place: Column, value: Column, steps: int, places: int) -> Column:
    """Return the sums of values, shape (steps, places)."""
    weights = np.bincount(step * places + place, value, steps * places)
    return weights.astype(np.int64).reshape(steps, places)


def largest(step: Column, value: Column, steps: int) -> Column:
    """Return each step's largest value."""
    found = np.zeros(steps, np.int64)
    np.maximum.at(found, step, value)
    return found


def _busiest(step: Column, place: Column, value: Column, steps: int) -> NDArray[np.float64]:
    """Return, for each step, the largest sum of values in one place."""
    keys, inverse = np.unique(step * (1 << 40) + place, return_inverse=True)
    totals = np.bincount(inverse, value, len(keys))
    found = np.zeros(steps)
    np.maximum.at(found, keys >> 40, totals)
    return found
