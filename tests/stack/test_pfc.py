# SPDX-License-Identifier: Apache-2.0
"""Pauses of a port: their duration, repetition in time, hysteresis, and counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stack.switch_rig import LONGEST_QUANTA, MS, NEVER, US, pauses

GBIT = 1_000_000_000
LOSSLESS = 3


@pytest.mark.parametrize(
    ("rate", "quanta", "lasts_ns"), [(10 * GBIT, 1, 51), (GBIT, 1000, 512_000), (GBIT, 0, 0)]
)
def test_a_pause_lasts_its_quanta_at_the_cables_rate(rate: int, quanta: int, lasts_ns: int) -> None:
    with pauses(rate) as port:
        port.receive({LOSSLESS: quanta}, 1000)
        assert port.is_paused(LOSSLESS, 1000) == (lasts_ns > 0)
        assert not lasts_ns or port.is_paused(LOSSLESS, 1000 + lasts_ns - 1)
        assert not port.is_paused(LOSSLESS, 1000 + lasts_ns)
        assert not port.is_paused(LOSSLESS + 1, 1000)


def test_a_second_pause_replaces_the_first_and_zero_ends_it() -> None:
    with pauses(GBIT) as port:
        port.receive({LOSSLESS: 1000}, 0)
        port.receive({LOSSLESS: 10}, 100 * US)
        assert not port.is_paused(LOSSLESS, 106 * US)
        port.receive({LOSSLESS: LONGEST_QUANTA, 5: LONGEST_QUANTA}, 200 * US)
        port.receive({LOSSLESS: 0}, 300 * US)
        assert not port.is_paused(LOSSLESS, 300 * US)
        assert port.is_paused(5, 300 * US)
        assert port.counters(LOSSLESS, 400 * US) == {
            "rx_frames": 4, "rx_transitions": 2, "rx_us": 105 + 100,
            "tx_frames": 0, "tx_transitions": 0, "tx_us": 0,
        }  # fmt: skip


def test_xoff_is_repeated_before_its_quanta_expire_and_ends_below_xon() -> None:
    longest_ns = LONGEST_QUANTA * 512
    with pauses(GBIT) as sender, pauses(GBIT) as receiver:
        now = 5 * MS
        receiver.watch(LOSSLESS, 100, 100, 50, now)
        assert receiver.take(LOSSLESS, now) is None and receiver.refresh_ns == NEVER
        receiver.watch(LOSSLESS, 101, 100, 50, now)
        sent = 0
        while now < 200 * MS:
            while frame := receiver.take(LOSSLESS, now):
                assert frame == (1 << LOSSLESS, LONGEST_QUANTA)
                sender.receive({LOSSLESS: frame[1]}, now)
                sent += 1
            assert sender.is_paused(LOSSLESS, now)
            now = receiver.refresh_ns
            receiver.watch(LOSSLESS, 51, 100, 50, now)  # between the two: nothing changes
        assert sent == pytest.approx(195 * MS / (longest_ns / 2), abs=1)
        receiver.watch(LOSSLESS, 50, 100, 50, now)
        assert receiver.take(LOSSLESS, now) == (1 << LOSSLESS, 0)
        assert receiver.take(LOSSLESS, now) is None and receiver.refresh_ns == NEVER
        counted = receiver.counters(LOSSLESS, 10**12)
        assert (counted["tx_frames"], counted["tx_transitions"]) == (sent + 1, 1)
        assert counted["tx_us"] == (now - 5 * MS) // US


def test_xoff_and_xon_without_a_frame_between_them_cancel_out() -> None:
    with pauses(GBIT) as port:
        for held in (101, 50):
            port.watch(LOSSLESS, held, 100, 50, 0)
        assert port.take(LOSSLESS, 0) is None and port.refresh_ns == NEVER
        port.watch(LOSSLESS, 101, 100, 50, 0)
        assert port.take(LOSSLESS, 0) == (1 << LOSSLESS, LONGEST_QUANTA)
        for held in (50, 101):
            port.watch(LOSSLESS, held, 100, 50, US)
        assert port.take(LOSSLESS, US) is None
        assert port.refresh_ns == LONGEST_QUANTA * 512 // 2  # still paused: refreshed in time


@given(
    st.lists(st.tuples(st.integers(0, 3 * MS), st.integers(0, 4000), st.booleans()), min_size=1, max_size=40)
)
def test_the_paused_time_is_counted(steps: list[tuple[int, int, bool]]) -> None:
    now, until, paused, bits_ns = 0, 0, 0, 512
    with pauses(GBIT) as port:
        for gap, quanta, look in steps:
            paused += min(until, now + gap) - now if until > now else 0
            now += gap
            if look:
                assert abs(port.counters(LOSSLESS, now)["rx_us"] - paused / US) <= len(steps)
            port.receive({LOSSLESS: quanta}, now)
            until = now + quanta * bits_ns
        assert abs(port.counters(LOSSLESS, now)["rx_us"] - paused / US) <= len(steps)
