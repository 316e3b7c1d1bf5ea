# SPDX-License-Identifier: Apache-2.0
"""The delay of a cable: how long the frames that arrive at a port are held, and the ring that holds them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from hipsnet.errors import ProvisionError
from hipsnet.node import bpf, programs
from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import LinkConfig, NodeConfig
from hipsnet.node.forwarding import opened_map, port_key, read_port
from hipsnet.units import format_time

_BURST_BYTES = 7 << 17
_MOST_BYTES = 1 << 24
_UNLIMITED_BPS = 10_000_000_000


class PortDelay(NamedTuple):
    """A port's actual delay; `ring` is the kernel's id of its ring of `ring_bytes`, both 0 without one."""

    ifindex: int
    delay_us: int
    ring: int
    ring_bytes: int


def ring_bytes(link: LinkConfig) -> int:
    """The size of the ring for frames that arrive by a link: a power of two, 0 without a delay.

    It holds the frames of one delay, half as much again, and a reserve for a delay line that is late. An
    unlimited rate counts as 10 Gbit/s, and no ring is larger than 16 MiB: frames beyond are dropped and counted.
    """
    if not link.delay_us:
        return 0
    under_way = (link.rate_bps or _UNLIMITED_BPS) * link.delay_us // 8_000_000
    needed = under_way * 3 // 2 + _BURST_BYTES
    return min(_MOST_BYTES, 1 << (needed - 1).bit_length())


def read(fabric: str, node: str) -> tuple[PortDelay, ...]:
    """The delays of a node's ports by index; empty if it has no program that this version can read."""
    try:
        with (
            opened_map(fabric, node, "cable", "ports") as (ports, layout),
            opened_map(fabric, node, "cable", "rings") as (rings, _),
        ):
            found = []
            for port in range(bpf.map_info(ports).max_entries):
                (row,) = read_port(ports, layout, node, port)
                found.append(PortDelay(int(row["ifindex"]), int(row["delay_us"]), *_ring(rings, port)))
            return tuple(found)
    except ProvisionError:
        return ()


def _ring(rings: int, port: int) -> tuple[int, int]:
    """(id, bytes) of a port's ring; zeros if it has none."""
    found = bpf.lookup(rings, port_key(port), 4)
    if found is None:
        return 0, 0
    number = int.from_bytes(found, sys.byteorder)
    with bpf.closing(bpf.open_map(number)) as ring:
        return number, bpf.map_info(ring).max_entries


def set_delay(fabric: str, node: str, port: int, delay_us: int, least_ring_bytes: int) -> None:
    """Hold the frames that arrive at a port for `delay_us` (0: not at all), in a ring of at least that size.

    The fabric's delay line sends them on; frames in the ring are lost when a delay is removed.
    Raises ProvisionError if the node has no such port.
    """
    with (
        opened_map(fabric, node, "cable", "ports") as (ports, layout),
        opened_map(fabric, node, "cable", "rings") as (rings, _),
    ):
        row = read_port(ports, layout, node, port)
        if delay_us and _ring(rings, port)[1] < least_ring_bytes:
            with bpf.closing(programs.create_ring(least_ring_bytes)) as ring:
                bpf.update(rings, port_key(port), ring.to_bytes(4, sys.byteorder))
        row["delay_us"] = delay_us
        bpf.update(ports, port_key(port), row.tobytes())
        if not delay_us:
            bpf.delete(rings, port_key(port))


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Ports whose delay has to be set, changed or removed."""
    for link in desired.ports:
        now = actual.links.get(link.name)
        have, room = (now.delay_us, now.ring_bytes) if now else (0, 0)
        needed = ring_bytes(link)
        if have == link.delay_us and (room >= needed if needed else not room):
            continue
        action = "remove" if not link.delay_us else "change" if room else "add"
        before, after = format_time(have), format_time(link.delay_us)
        yield Change(desired.name, "delay", action, link.name, before, after, (desired.fabric, link))  # type: ignore[arg-type]


def apply(context: Context, change: Change) -> None:
    """Set one port's delay, in place."""
    fabric, link = change.value
    set_delay(fabric, change.node, link.port, link.delay_us, ring_bytes(link))
