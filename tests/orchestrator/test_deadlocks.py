# SPDX-License-Identifier: Apache-2.0
"""Cycles of queues that wait for one another, found in constructed readings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipsnet.topology.deadlock import shortest_cycle
from orchestrator.telemetry import fields
from orchestrator.telemetry.deadlocks import Deadlock, changes, deadlocks
from orchestrator.telemetry.events import storms
from orchestrator.telemetry.fields import ALL, PRIORITIES
from orchestrator.telemetry.ports import WatchedPorts
from tests.orchestrator.test_telemetry import ports_of, rates_of, reading

PRIORITY = 3
SECOND = 1_000_000  # microseconds


@pytest.fixture
def ring() -> WatchedPorts:
    """Four servers in a ring: p0 leads forward, p1 back."""
    return ports_of(kind="torus", dims=(4,))


def found_in(
    ports: WatchedPorts, stuck: Sequence[str], share: float = 1.0, waits: int = 1, priority: int = PRIORITY
) -> tuple[Deadlock, ...]:
    """Return the deadlocks found if these ports were paused for that share of a second and sent nothing."""
    before = reading(ports, 0.0)
    for field in ("rx_pause_us", "tx_frames"):
        before.store(fields.INDEX[field], slice(None), slice(0, PRIORITIES), 0)
    after = reading(
        ports, 1.0,
        tx_frames={(port.name, ALL): 7 for port in ports.ports},
        buffer_bytes={(name, priority): waits for name in stuck},
    )  # fmt: skip
    after.store(fields.INDEX["tx_frames"], slice(None), slice(0, PRIORITIES), 0)
    after.store(fields.INDEX["rx_pause_us"], slice(None), slice(0, PRIORITIES), 0)
    for name in stuck:
        after.store(fields.INDEX["rx_pause_us"], ports.numbers[name], priority, int(share * SECOND))
    rates = rates_of(ports, before, after)
    return deadlocks(ports, rates, storms(rates))


def onward(ports: WatchedPorts) -> list[str]:
    """The forward port of each server in the ring."""
    names = []
    at = ports.fabric.servers[0]
    for _ in ports.fabric.servers:
        (port,) = (port for port in at.ports if port.direction == 1)
        names.append(f"{at.name}.{port.name}")
        at = next(server for server in ports.fabric.servers if server.name == ports.fabric.peer(port).node)
    return names


def test_a_cycle_of_paused_queues_is_named_in_its_order(ring: WatchedPorts) -> None:
    names = onward(ring)
    assert found_in(ring, names) == (Deadlock(PRIORITY, tuple(names)),)
    assert found_in(ring, names, priority=5) == (Deadlock(5, tuple(names)),)
    assert str(Deadlock(PRIORITY, tuple(names))).startswith("priority 3: s0.")


@pytest.mark.parametrize(("share", "waits"), [(0.9, 1), (1.0, 0)])
def test_pauses_that_end_and_empty_queues_are_no_deadlock(
    ring: WatchedPorts, share: float, waits: int
) -> None:
    assert found_in(ring, onward(ring), share, waits) == ()


def test_a_chain_with_a_root_is_no_deadlock(ring: WatchedPorts) -> None:
    assert found_in(ring, onward(ring)[:-1]) == ()


def test_two_ports_that_pause_each_other_are_no_deadlock(ring: WatchedPorts) -> None:
    """Frames are never forwarded back to the cable they arrived on."""
    first, back = ring.ports[0].name, ring.ports[0].peer_name
    assert found_in(ring, [first, back]) == ()


def test_every_cycle_of_a_fabric_is_named_once() -> None:
    ports = ports_of(kind="torus", dims=(4, 4))
    stuck = [port.name for port in ports.ports if port.level == 0]  # four rings, in both directions
    both_ways = found_in(ports, stuck)
    on = [name for deadlock in both_ways for name in deadlock.queues]
    assert len(on) == len(set(on)) > 0
    assert {len(deadlock.queues) for deadlock in both_ways} == {4}
    assert len(both_ways) == len(stuck) // 4 == 8


def test_a_deadlock_begins_and_ends_once() -> None:
    one, other = Deadlock(3, ("s0.p0", "s1.p0", "s2.p0")), Deadlock(4, ("s0.p0", "s1.p0", "s2.p0"))
    assert [(event.kind, event.detail) for event in changes((one,), (one, other))] == [
        ("deadlock", str(other))
    ]
    assert [event.kind for event in changes((one, other), (other,))] == ["deadlock over"]


@given(st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7)), max_size=8))
def test_a_cycle_is_found_exactly_if_there_is_one(edges: dict[int, set[int]]) -> None:
    graph = {("n", one): {("n", other) for other in others} for one, others in edges.items()}
    found = shortest_cycle(graph)
    reach = np.zeros((8, 8), bool)
    for one, others in edges.items():
        reach[one, list(others)] = True
    for middle in range(8):
        reach |= np.outer(reach[:, middle], reach[middle])
    assert (found is not None) == bool(reach.diagonal().any())
    if found:
        assert found[0] == found[-1]
        assert all(after in graph[before] for before, after in pairwise(found))
