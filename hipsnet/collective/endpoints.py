"""Which ports a transfer leaves and enters by: those of a way that the fabric's routes really take.

A transfer goes from the address of its sender's port to that of its receiver's port, and the routes to the latter
decide the rest (see `hipsnet.topology`). On a Fat-Tree NIC t reaches NIC t. In BCube and Torus a way corrects the
digits that differ one after the other, beginning with any of them; the sender's port is that of the first and the
receiver's that of the last. Neighbours differ in one digit, so both ports are those of the cable (the switch)
between them. Where several digits differ, thread t begins with the one of its own port, if it can: so the threads
spread over as many ways as there are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hipsnet.collective.schedule import Schedule, describe
from hipsnet.errors import ScheduleError
from hipsnet.topology import Fabric

Column = NDArray[np.int64]


def sender_ports(fabric: Fabric, src: ArrayLike, dst: ArrayLike, thread: ArrayLike) -> Column:
    """Return the index of the port by which each transfer of `thread` leaves `src` (ranks) for `dst`."""
    port = np.asarray(thread, np.int64) % len(fabric.servers[0].ports)
    if fabric.kind == "fattree":
        return port
    here, there = _digits(fabric, src), _digits(fabric, dst)
    step = -1 if fabric.kind == "bcube" else 1
    first = _first_difference(here, there, _port_levels(fabric)[port], step)
    return _port_towards(fabric, here, there, first)


def receiver_ports(fabric: Fabric, schedule: Schedule) -> Column:
    """Return for every transfer the index of the port by which it enters its receiver.

    Raises ScheduleError where no way from src to dst begins at the sender's port.
    """
    transfers = schedule.transfers
    src, dst, port = (transfers[column].astype(np.int64) for column in ("src", "dst", "level"))
    found = _receiver_ports(fabric, src, dst, port)
    if (wrong := np.flatnonzero(found < 0)).size:
        index = int(wrong[0])
        wanted = int(sender_ports(fabric, src[index : index + 1], dst[index : index + 1], port[index])[0])
        raise ScheduleError(
            f"{describe(schedule, index)}: no way to its receiver begins at that port; port {wanted} has one"
        )
    return found


def receiver_port(fabric: Fabric, src: int, dst: int, port: int) -> int:
    """Return the index of dst's port that what leaves rank src by `port` for rank dst enters by; -1 if there is none."""
    return int(_receiver_ports(fabric, np.array([src]), np.array([dst]), np.array([port]))[0])


def _receiver_ports(fabric: Fabric, src: Column, dst: Column, port: Column) -> Column:
    ports = len(fabric.servers[0].ports)
    inside, port = port < ports, np.minimum(port, ports - 1)
    if fabric.kind == "fattree":
        return np.where(inside, port, -1)
    here, there = _digits(fabric, src), _digits(fabric, dst)
    first = _port_levels(fabric)[port]
    begins = inside & (_port_towards(fabric, here, there, first) == port)
    begins &= _at(here, first) != _at(there, first)
    # Digits are corrected downwards in BCube and upwards in a torus: the last is the next one the other way.
    step = 1 if fabric.kind == "bcube" else -1
    last = _first_difference(here, there, (first + step) % len(fabric.sides), step)
    return np.where(begins, _port_towards(fabric, there, here, last, tie=-1), -1)


def _digits(fabric: Fabric, ranks: ArrayLike) -> Column:
    """One row per digit."""
    ranks = np.asarray(ranks, np.int64)
    strides = np.cumprod((1, *fabric.sides[:-1]))
    return ranks // strides[:, None] % np.array(fabric.sides)[:, None]


def _at(digits: Column, level: Column) -> Column:
    chosen: Column = np.take_along_axis(digits, level[None, :], 0)[0]
    return chosen


def _first_difference(here: Column, there: Column, start: Column, step: int) -> Column:
    """The first level at start, start + step, ... (cyclic) whose digits differ."""
    levels, differs = len(here), here != there
    found = start
    for distance in reversed(range(levels)):
        level = (start + step * distance) % levels
        found = np.where(_at(differs, level), level, found)
    return found


def _port_towards(fabric: Fabric, here: Column, there: Column, level: Column, tie: int = 1) -> Column:
    """The port that the way correcting `level` takes; half-way round a ring it goes in direction `tie`."""
    if fabric.kind == "bcube":
        return level
    side = np.array(fabric.sides)[level]
    distance = (_at(there, level) - _at(here, level)) % side
    backwards = (2 * distance > side) | ((2 * distance == side) & (tie < 0))
    first = np.array(list(_first_ports(fabric)))[level]
    return first + (backwards & (side > 2))


def _port_levels(fabric: Fabric) -> Column:
    return np.array([port.level for port in fabric.servers[0].ports])


def _first_ports(fabric: Fabric) -> Iterator[int]:
    """The lowest port of each dimension of a torus."""
    ports = fabric.servers[0].ports
    return (next(port.index for port in ports if port.level == d) for d in range(len(fabric.sides)))
