# SPDX-License-Identifier: Apache-2.0
"""Calls over a scripted wire: correct in any order of events and within every limit."""

from __future__ import annotations

import random
from functools import reduce

import numpy as np
import pytest

from hipsnet.collective.algorithms import Algorithm
from hipsnet.engine.reduction import DTYPES
from hipsnet.stack.roce.core import Core
from tests.engine.world import OPERATIONS, Call, Limits, World

SHAPES = [
    ("bcube(3,2)", Algorithm()),
    ("bcube(2,3)", Algorithm("hips", ("ring", "mesh", "ps"))),
    ("torus(3,3)", Algorithm()),
    ("fattree(5,2)", Algorithm("ring")),
    ("fattree(4,1)", Algorithm("mesh")),
    ("fattree(4,1)", Algorithm("ps", servers=2)),
]
EAGER = Limits(eager_bytes=1 << 16)


def run_calls(world: World, calls: list[Call], order: random.Random) -> None:
    """Each rank submits the calls in order, at different times; all results must be correct."""
    left = [list(calls) for _ in range(world.ranks)]
    while any(left):
        rank = order.choice([rank for rank, some in enumerate(left) if some])
        if world.submit(rank, left[rank][0]) is not None:
            left[rank].pop(0)
        for _ in range(order.choice((0, 1, 3, 20, 200))):
            world.core.lib.world_step(world.handle)
    world.run()
    for rank, submitted in enumerate(world.calls):
        assert not world.failure(rank), world.core.ffi.string(world.failure(rank).words)
        for call, done in zip(calls, submitted, strict=True):
            assert world.state(rank, done) == world.core.lib.CALL_DONE
            assert done.array.tobytes() == call.result(world.ranks).tobytes()
        assert world.core.lib.world_regions(world.handle, rank) == len(world.routes[rank])


@pytest.mark.parametrize("limits", [Limits(), EAGER], ids=["written", "eager"])
@pytest.mark.parametrize(("shape", "algorithm"), SHAPES, ids=lambda value: str(value).replace(" ", ""))
def test_calls_in_any_order_of_events(
    scripted: Core, shape: str, algorithm: Algorithm, limits: Limits
) -> None:
    for seed in range(4):
        order = random.Random(seed)
        calls = [Call(order.choice((0, 1, 7, 50, 333, 1009)), seed=n) for n in range(8)]
        world = World(scripted, shape, algorithm, limits, seed)
        run_calls(world, calls, order)
        world.close()


def test_every_dtype_and_operation(scripted: Core) -> None:
    calls = [Call(100, dtype, operation) for dtype in DTYPES for operation in OPERATIONS]
    for limits in (Limits(), EAGER):
        world = World(scripted, "bcube(3,2)", limits=limits)
        run_calls(world, calls, random.Random(1))
        world.close()


def test_a_wire_that_is_nearly_full(scripted: Core) -> None:
    """Writes and messages that do not fit are posted once there is space."""
    for limits in (Limits(), EAGER):
        world = World(scripted, "bcube(3,2)", limits=limits, seed=3)
        scripted.lib.world_limit(world.handle, 6)
        for rank in range(world.ranks):
            assert world.submit(rank, Call(500))
        world.run()
        assert all((calls[0].array == Call(500).result(world.ranks)).all() for calls in world.calls)
        world.close()


@pytest.mark.parametrize("reserve", [1, 2])
def test_young_calls_cannot_take_the_last_slots_of_the_oldest(scripted: Core, reserve: int) -> None:
    """Rank 0 is late for the first of many calls, whose data all others hold back for it."""
    limits = Limits(slots=reserve + 1, eager_slots=reserve + 1, eager_bytes=8, slot_bytes=64, reserve=reserve)
    for seed in range(12):
        world = World(scripted, "torus(3,3)", limits=limits, seed=seed)
        calls = [Call(1 + 40 * (n % 3), seed=n) for n in range(12)]
        for rank in range(1, world.ranks):
            for call in calls:
                assert world.submit(rank, call)
        world.run()
        for call in calls:
            assert world.submit(0, call)
        world.run()
        for submitted in world.calls:
            for call, done in zip(calls, submitted, strict=True):
                assert done.array.tobytes() == call.result(world.ranks).tobytes()
        world.close()


def test_the_window_is_bounded(scripted: Core) -> None:
    world = World(scripted, "fattree(2,1)", Algorithm("ring"))
    while world.submit(0, Call(10)):
        pass
    assert len(world.calls[0]) == scripted.lib.CORE_WINDOW
    for _ in world.calls[0]:
        assert world.submit(1, Call(10))
    world.run()
    assert world.submit(0, Call(10)) is None  # done, and not released yet
    scripted.lib.core_release(world.cores[0], 1)
    assert world.submit(0, Call(10))
    world.close()


def test_a_chain_of_many_thousand_receives(scripted: Core) -> None:
    """One message triggers all earlier receives, without recursion at any length."""
    limits = Limits(slots=62, slot_bytes=8, eager_slots=1 << 15, eager_bytes=8)
    world = World(scripted, "fattree(3,1)", Algorithm("mesh"), limits)
    call = Call(9_000, np.dtype(np.int64))
    for rank in (0, 1, 2):
        assert world.submit(rank, call)
    world.run()
    assert all((calls[0].array == call.result(3)).all() for calls in world.calls)
    world.close()


@pytest.mark.parametrize("limits", [Limits(), EAGER], ids=["written", "eager"])
def test_every_rank_may_divide_the_vector_in_another_way(scripted: Core, limits: Limits) -> None:
    cuts = (1, 60, 61, 200, 480)
    for seed in range(6):
        world = World(scripted, "bcube(3,2)", limits=limits, seed=seed)
        order = random.Random(seed)
        for rank in range(world.ranks):
            bounds = sorted(order.sample(cuts, order.randrange(6)))
            assert world.submit(rank, Call(500, operation="mean"), cuts, bounds)
        world.run()
        for calls in world.calls:
            assert (calls[0].array == Call(500, operation="mean").result(world.ranks)).all()
        world.close()


def test_a_segment_outside_the_arrays_is_refused(scripted: Core) -> None:
    world = World(scripted, "bcube(3,2)")
    assert world.submit(0, Call(500), (), (252,)) is None  # no cut there
    assert not world.failure(0)
    for rank in range(world.ranks):
        assert world.submit(rank, Call(500))
    world.run()
    assert all((calls[0].array == Call(500).result(9)).all() for calls in world.calls)
    world.close()


@pytest.mark.parametrize("limits", [Limits(), EAGER], ids=["written", "eager"])
@pytest.mark.parametrize(
    ("shape", "algorithm"),
    [
        ("bcube(3,2)", Algorithm("hips", ("full",))),
        ("bcube(4,1)", Algorithm("hips", ("full",))),
        ("fattree(5,1)", Algorithm("mesh", ("full",))),
    ],
    ids=lambda value: str(value),
)
def test_merges_are_combined_in_order_of_rank(
    scripted: Core, shape: str, algorithm: Algorithm, limits: Limits
) -> None:
    """Rounding shows the order of sums, and +0 and -0 that of a maximum."""
    for seed in range(4):
        for operation in ("sum", "max"):
            world = World(scripted, shape, algorithm, limits, seed)
            call = Fractions(200, np.dtype(np.float32), operation, seed)
            for rank in range(world.ranks):
                assert world.submit(rank, call)
            world.run()
            found = {calls[0].array.tobytes() for calls in world.calls}
            assert len(found) == 1
            if shape != "bcube(3,2)":
                combine = np.add if operation == "sum" else np.maximum
                total = reduce(combine, [call.vector(rank) for rank in range(world.ranks)])
                assert np.array_equal(np.frombuffer(found.pop(), np.float32), total)
            world.close()


class Fractions(Call):
    """Values whose sums are rounded, and zeros of both signs."""

    def vector(self, rank: int) -> np.ndarray:
        values = np.random.default_rng((self.seed, rank)).standard_normal(self.count).astype(self.dtype)
        values[::3] = 0.0 if rank % 2 else -0.0
        return values
