# SPDX-License-Identifier: Apache-2.0
"""Admission to a switch's buffer: consistent at all times, and without losses of lossless frames."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stack.switch_rig import LONGEST_QUANTA, MS, MTU_FRAME, US, Class, Rig, rig

LOSSLESS, LOSSY = 3, 0
KIB = 1024
SIZES = st.sampled_from([60, 64, 1078, 4170, MTU_FRAME])

classes = st.builds(
    Class,
    lossless=st.booleans(),
    reserved=st.sampled_from([0, 2 * MTU_FRAME]),
    headroom=st.sampled_from([0, 30 * KIB, 100 * KIB]),
    xoff=st.sampled_from([0, 0, 20 * KIB, 60 * KIB]),
    xon=st.sampled_from([0, 1, 10 * KIB]),
    alpha=st.sampled_from([0.125, 1.0, 8.0]),
    hysteresis=st.sampled_from([0, 2 * MTU_FRAME]),
)
steps = st.lists(
    st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 2), st.sampled_from([LOSSY, LOSSLESS]), SIZES),
    max_size=150,
)


def check_accounts(made: Rig, held: dict[tuple[int, int], int], waiting: dict[tuple[int, int], int]) -> None:
    """Compare every part with the test's own count."""
    shared = headroom = 0
    for port in range(3):
        for priority in (LOSSY, LOSSLESS):
            group = made.group(port, priority)
            assert group.reserved + group.shared + group.headroom == held[port, priority]
            assert made.queue(port, priority) == waiting[port, priority]
            shared, headroom = shared + group.shared, headroom + group.headroom
    assert (made.shared, made.headroom) == (shared, headroom)


@settings(max_examples=60, deadline=None)
@given(lossless=classes, lossy=classes, shared=st.sampled_from([0, 40 * KIB, 300 * KIB]), todo=steps)
def test_the_sum_of_the_parts_is_what_is_held_and_all_of_it_comes_back(
    lossless: Class, lossy: Class, shared: int, todo: list[tuple[bool, int, int, int, int]]
) -> None:
    limits = {LOSSLESS: lossless, LOSSY: lossy}
    with rig(shared=shared, classes=limits) as made:
        held: dict[tuple[int, int], int] = defaultdict(int)
        waiting: dict[tuple[int, int], int] = defaultdict(int)

        def leave(egress: int) -> bool:
            taken = made.take(egress)
            if taken:
                held[taken.ingress, taken.priority] -= taken.bytes
                waiting[egress, taken.priority] -= taken.bytes
            return taken is not None

        for comes, ingress, egress, priority, size in todo:
            if comes and made.admit(ingress, egress, priority, size):
                held[ingress, priority] += size
                waiting[egress, priority] += size
            elif not comes:
                leave(egress)
            check_accounts(made, held, waiting)
            for port, number in itertools.product(range(3), limits):
                group = made.group(port, number)
                assert group.reserved <= limits[number].reserved
                assert group.headroom <= (limits[number].headroom if limits[number].lossless else 0)
            assert made.shared <= shared
        for egress in range(3):
            while leave(egress):
                pass
        assert not any(held.values()) and not any(waiting.values())
        check_accounts(made, held, waiting)
        made.settle()
        assert not any(made.group(port, LOSSLESS).stopped for port in range(3))


def test_frames_that_arrive_while_the_process_is_descheduled_keep_their_chunks() -> None:
    """It counts for the ring of its port, which is smaller until it has left; beyond that ring it is lost."""
    limits = Class(lossless=True, headroom=4 * KIB, xoff=1)
    with rig(shared=0, classes={LOSSLESS: limits}) as made:
        made.ahead(10)
        assert [made.admit(0, 1, LOSSLESS, 2 * KIB) for _ in range(13)] == [True] * 12 + [False]
        assert (made.ring(0), made.ring(1)) == (0, 10)
        counted = made.counters().ports["priority"][0][LOSSLESS]
        assert (counted["late"], counted["drop_headroom"]) == (10, 1)
        for left in range(12):
            assert made.group(0, LOSSLESS).stopped
            assert made.ring(0) == max(0, left - 2)
            assert made.take(1) is not None
        made.settle()
        assert (made.group(0, LOSSLESS).stopped, made.ring(0), made.headroom) == (False, 10, 0)
        assert made.admit(0, 1, LOSSLESS, 2 * KIB)


class Sender:
    """Sends bursts at line rate, and stops after XOFF as late as permitted."""

    def __init__(self, dice: random.Random, rate_bps: int, response_ns: int) -> None:
        self.dice, self.rate, self.response_ns = dice, rate_bps, response_ns
        self.free_ns = 0
        self.orders: list[tuple[int, int]] = []  # from when on, until when
        self.until_ns = 0

    def hear(self, quanta: int, now: int) -> None:
        self.orders.append((now + self.response_ns, now + quanta * 512 * 1_000_000_000 // self.rate))

    def frame(self, now: int) -> int | None:
        while self.orders and self.orders[0][0] <= now:
            self.until_ns = self.orders.pop(0)[1]
        if now < self.free_ns or now < self.until_ns:
            return None
        size = self.dice.choice([64, 1078, 4170, MTU_FRAME])
        idle = self.dice.randrange(2 * MS) if self.dice.random() < 0.01 else 0
        self.free_ns = now + size * 8 * 1_000_000_000 // self.rate + idle
        return size


def run_incast(seed: int, limits: Class, response_ns: int, senders: int = 3) -> tuple[int, int, int, int]:
    """All ports but 0 send to it through a switch; port 0 too is stopped now and then.

    Returns lossless frames lost, XOFFs sent, bytes that left, and nanoseconds in which port 0 was open.
    """
    dice, rate, step = random.Random(seed), 1_000_000_000, 2 * US
    lost = sent = left = open_ns = 0
    with rig(
        ports=senders + 1, shared=256 * KIB, classes={LOSSLESS: limits}, rate_bps=rate, burst_ns=10 * US
    ) as made:
        sources = [Sender(dice, rate, response_ns) for _ in range(senders)]
        closed_until = 0
        for now in range(0, 30 * MS, step):
            for number, source in enumerate(sources):
                size = source.frame(now)
                if size is not None and not made.admit(number + 1, 0, LOSSLESS, size, now):
                    lost += 1
            if now >= closed_until and dice.random() < 0.0005:
                closed_until = now + dice.randrange(5 * MS)
            while now >= closed_until and (taken := made.take(0, now)):
                left += taken.bytes
            open_ns += step if now >= closed_until else 0
            made.settle(now)
            for number, source in enumerate(sources):
                while frame := made.pause(number + 1, LOSSLESS, now):
                    sent += frame[1] == LONGEST_QUANTA
                    source.hear(frame[1], now)
    return lost, sent, left, open_ns


@pytest.mark.parametrize("xoff", [0, 24 * KIB])
@pytest.mark.parametrize("seed", range(3))
def test_a_sender_that_obeys_in_time_loses_nothing(seed: int, xoff: int) -> None:
    response_ns = 100 * US
    headroom = response_ns // 8 + 2 * MTU_FRAME  # at 1 Gbit/s
    limits = Class(True, MTU_FRAME, headroom, xoff, xoff // 2, 1.0, 2 * MTU_FRAME)
    lost, sent, left, open_ns = run_incast(seed, limits, response_ns)
    assert lost == 0 and sent > 10
    assert left > 0.95 * open_ns / 8


def test_with_too_little_headroom_the_same_senders_lose() -> None:
    limits = Class(True, MTU_FRAME, 2 * KIB, 0, 0, 1.0, 2 * MTU_FRAME)
    assert run_incast(0, limits, 100 * US)[0] > 0


@pytest.mark.parametrize(("alpha", "ports"), [(1.0, 1), (1.0, 3), (0.5, 2), (4.0, 3)])
def test_each_of_m_full_groups_holds_alpha_of_what_is_left(alpha: float, ports: int) -> None:
    """The balance of dynamic thresholds: alpha B / (1 + alpha m) each (Choudhury and Hahne 1998)."""
    shared, size = 1 << 20, 64
    with rig(
        ports=ports + 1, shared=shared, classes={LOSSLESS: Class(True, 0, 4 * KIB, alpha=alpha)}
    ) as made:
        growing = set(range(1, ports + 1))
        while growing:
            for port in sorted(growing):
                assert made.admit(port, 0, LOSSLESS, size)
                if made.group(port, LOSSLESS).stopped:
                    growing.discard(port)
        for port in range(1, ports + 1):
            expected = alpha * shared / (1 + alpha * ports)
            assert made.group(port, LOSSLESS).shared == pytest.approx(expected, abs=2 * size * (1 + alpha))


def test_a_static_xoff_stops_at_its_length_and_goes_on_at_xon() -> None:
    limits = Class(True, 10_000, 50_000, 40_000, 15_000)
    with rig(classes={LOSSLESS: limits}) as made:
        for _ in range(40):
            assert made.admit(1, 0, LOSSLESS, 1000)
        assert made.pause(1, LOSSLESS) is None
        assert made.admit(1, 0, LOSSLESS, 1000)
        assert made.pause(1, LOSSLESS) == (1 << LOSSLESS, LONGEST_QUANTA)
        for left in range(40, 15, -1):
            assert made.take(0) is not None and (made.pause(1, LOSSLESS) is None), left
        assert made.take(0) is not None
        assert made.pause(1, LOSSLESS) == (1 << LOSSLESS, 0)


def test_frames_that_leave_other_ports_resume_a_paused_group() -> None:
    with rig(shared=100_000, classes={LOSSLESS: Class(True, 0, 9000, alpha=1.0, hysteresis=2000)}) as made:
        while made.pause(1, LOSSLESS) is None:
            assert made.admit(1, 0, LOSSLESS, 1000)
        while made.pause(2, LOSSLESS) is None:
            assert made.admit(2, 1, LOSSLESS, 1000)
        while made.take(0):
            pass
        made.settle()
        assert made.pause(2, LOSSLESS) is None  # its own headroom is not empty
        assert made.take(1) is not None
        assert made.pause(2, LOSSLESS) == (1 << LOSSLESS, 0)


def test_a_lossy_queue_drops_its_tail_and_leaves_memory_to_others() -> None:
    with rig(shared=100_000, classes={LOSSY: Class(alpha=1.0)}) as made:
        while made.admit(1, 0, LOSSY, 1000):
            pass
        assert made.queue(0, LOSSY) == 50_000
        assert made.admit(1, 2, LOSSY, 1000)
        assert made.counters().dropped == {"drop_tail": 1}
        assert made.pause(1, LOSSY) is None


def test_scarce_memory_pauses_senders_before_it_is_exhausted() -> None:
    """Short frames occupy whole chunks: the free chunks limit the pool."""
    owed = 100
    with rig(memory=300, owed=owed, classes={LOSSLESS: Class(True, 0, 64 * owed, alpha=1.0)}) as made:
        free = 300
        while made.pause(1, LOSSLESS) is None:
            assert made.admit(1, 0, LOSSLESS, 64)
            free -= 1
            made.memory(free)
        assert free >= owed
        for _ in range(owed - 1):
            assert made.admit(1, 0, LOSSLESS, 64)
            free -= 1
            made.memory(free)
        assert made.counters().dropped == {}
