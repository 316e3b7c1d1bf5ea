# SPDX-License-Identifier: Apache-2.0
"""The PFC watchdog on a virtual clock: detection of a storm, its actions, and restoration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.kernel.frames import pfc
from tests.stack.switch_rig import LONGEST_QUANTA, MS, MTU_FRAME, NEVER, US, Class, Rig, rig

PRIORITY, LOSSY = 3, 0
DETECT, RESTORE, POLL = 200 * MS, 300 * MS, 20 * MS
RATE = 10**9
XOFF = LONGEST_QUANTA * 512 * 10**9 // RATE  # 33.6 ms
CLASS = Class(lossless=True, reserved=2 * MTU_FRAME, headroom=64 << 10, xoff=128 << 10, xon=64 << 10)
DSCP_BYTE = PRIORITY * 8 << 2


@contextmanager
def watched(action: str = "drop", detect: int = DETECT, restore: int = RESTORE) -> Iterator[Rig]:
    """Ports 1 and 2 send to port 0, and port 0's other end pauses."""
    with rig(ports=4, classes={PRIORITY: CLASS, LOSSY: Class(alpha=8.0)}, rate_bps=RATE) as made:
        made.watchdog(detect, restore, action)
        yield made


def pause(made: Rig, now: int, quanta: int = LONGEST_QUANTA, port: int = 0, priority: int = PRIORITY) -> None:
    made.receive(
        port, bytearray(pfc(1 << priority, tuple(quanta if p == priority else 0 for p in range(8)))), now
    )


def stuck(made: Rig, start: int, end: int, quiet: tuple[int, ...] = ()) -> None:
    """From start to end, the other end repeats its pause in time, but for the polls in `quiet`: it is late."""
    for now in range(start, end + 1, POLL):
        made.watch(now)
        if now not in quiet:
            pause(made, now)


def kinds(made: Rig) -> list[tuple[str, int]]:
    return [(event.kind, event.time_ns) for event in made.events()]


def test_a_storm_is_detected_within_its_time_and_names_culprit_and_victims() -> None:
    with watched() as made:
        made.watch(POLL)
        for ingress in (1, 2, 2):
            assert made.admit(ingress, 0, PRIORITY, MTU_FRAME, now=POLL)
        assert made.admit(3, 0, LOSSY, MTU_FRAME, now=POLL)
        stuck(made, POLL, POLL + DETECT - POLL)
        assert made.events() == ()
        stuck(made, POLL + DETECT, POLL + DETECT)
        (event,) = made.events()
        assert (event.kind, event.action, event.switch) == ("storm", "drop", "rig")
        assert (event.began_ns, event.time_ns) == (POLL, POLL + DETECT)
        assert (event.port, event.priority, event.victims, event.frames) == (0, PRIORITY, (1, 2), 3)
        found = made.counters().ports["priority"][0][PRIORITY]
        assert (found["storms"], found["storming"]) == (1, 1)


@pytest.mark.parametrize(
    "why", ["nothing waits", "some are sent", "short pauses", "another priority", "too short", "lossy"]
)
def test_other_pauses_are_no_storm(why: str) -> None:
    with watched() as made:
        if why not in ("nothing waits", "lossy"):
            for _ in range(12):
                made.admit(1, 0, PRIORITY, 1000, now=0)
        if why == "lossy":
            made.admit(1, 0, LOSSY, MTU_FRAME, now=0)
        for now in range(POLL, 3 * DETECT, POLL):
            made.watch(now)
            at = now // POLL
            if why == "some are sent" and at % 8 == 0:
                pause(made, now, 0)
                assert made.take(0, now)
            if why == "short pauses":  # 98 % of the time
                pause(made, now, LONGEST_QUANTA)
                pause(made, now + POLL * 98 // 100, 0)
            elif why == "too short" and at % 10 == 0:
                pause(made, now, 0)
                made.watch(now + 1)
                pause(made, now + POLL // 2)
            else:
                pause(made, now, priority={"another priority": 4, "lossy": LOSSY}.get(why, PRIORITY))
        assert made.events() == ()


def test_a_gap_of_less_than_a_hundredth_does_not_save_it() -> None:
    with watched() as made:
        made.admit(1, 0, PRIORITY, 1000)
        for now in range(POLL, 2 * DETECT, POLL):
            made.watch(now)
            pause(made, now, 0)
            pause(made, now + 150 * US)
        assert kinds(made) == [("storm", POLL + DETECT)]


def test_a_delayed_watchdog_does_not_report_a_storm() -> None:
    with watched() as made:
        made.watch(POLL)
        made.admit(1, 0, PRIORITY, 1000, now=POLL)
        for now in range(POLL, POLL + 10 * DETECT, POLL):
            pause(made, now)  # for example queued in the socket
        made.watch(POLL + 10 * DETECT)
        assert made.events() == ()


def test_drop_discards_frames_of_that_queue_alone() -> None:
    with watched("drop") as made:
        for ingress, priority in ((1, PRIORITY), (2, PRIORITY), (3, LOSSY)):
            made.admit(ingress, 0, priority, MTU_FRAME, now=POLL)
        made.admit(1, 2, PRIORITY, MTU_FRAME, now=POLL)
        stuck(made, POLL, 2 * POLL + DETECT)
        now = 2 * POLL + DETECT
        lost = [made.discard(0, now), made.discard(0, now), made.discard(0, now)]
        assert [frame and (frame.ingress, frame.priority) for frame in lost] == [
            (1, PRIORITY), (2, PRIORITY), None,
        ]  # fmt: skip
        assert not made.admit(1, 0, PRIORITY, MTU_FRAME, now=now)
        assert made.admit(1, 3, PRIORITY, MTU_FRAME, now=now)
        assert made.admit(1, 0, LOSSY, MTU_FRAME, now=now)
        assert made.discard(2, now) is None
        found = made.counters()
        assert found.dropped == {"drop_storm": 3}
        assert made.queue(0, PRIORITY) == 0


def test_drop_releases_the_senders_that_the_storm_has_paused() -> None:
    with watched("drop") as made:
        made.watch(POLL)
        while not made.group(1, PRIORITY).stopped:
            assert made.admit(1, 0, PRIORITY, MTU_FRAME, now=POLL)
        assert made.pause(1, PRIORITY, POLL) == (1 << PRIORITY, LONGEST_QUANTA)
        stuck(made, POLL, POLL + DETECT)
        while made.discard(0, POLL + DETECT):
            pass
        assert made.pause(1, PRIORITY, POLL + DETECT) == (1 << PRIORITY, 0)


@pytest.mark.parametrize(("action", "sends"), [("forward", True), ("alert", False)])
def test_forward_sends_and_alert_only_reports(action: str, sends: bool) -> None:
    with watched(action) as made:
        for _ in range(3):
            made.admit(1, 0, PRIORITY, 1000, now=POLL)
        stuck(made, POLL, 2 * POLL + DETECT)
        now = 2 * POLL + DETECT
        assert [event.action for event in made.events()] == [action]
        assert made.discard(0, now) is None
        assert (made.next_ns(0, now) <= now) == sends
        assert (made.take(0, now) is not None) == sends
        assert made.admit(1, 0, PRIORITY, 1000, now=now)


@pytest.mark.parametrize("action", ["drop", "forward", "alert"])
def test_it_is_restored_when_no_pause_was_seen_for_its_time(action: str) -> None:
    with watched(action) as made:
        made.admit(1, 0, PRIORITY, 1000, now=0)
        stuck(made, POLL, 10 * DETECT)
        last = 10 * DETECT
        while made.discard(0, last):
            pass
        quiet = last + XOFF  # the last pause has run out
        again = quiet + RESTORE // 2
        for now in range(last + POLL, again, POLL):
            made.watch(now)
        pause(made, again, 100)  # and detection starts again
        seen = (again // POLL + 1) * POLL
        for now in range(seen, seen + RESTORE + POLL, POLL):
            assert len(made.events()) == 1
            made.watch(now)
        storm, restored = made.events()
        assert (restored.kind, restored.time_ns) == ("restored", seen + RESTORE)
        assert (restored.began_ns, restored.victims) == (storm.time_ns, (1,))
        assert restored.frames == (1 if action == "drop" else 0)
        assert made.counters().ports["priority"][0][PRIORITY]["storming"] == 0
        assert made.admit(1, 0, PRIORITY, 1000, now=seen + RESTORE)
        pause(made, seen + RESTORE)
        assert made.take(0, seen + RESTORE) is None  # PFC counts again


def test_no_polls_without_a_watchdog_and_the_log_keeps_the_latest_events() -> None:
    with watched() as made:
        made.admit(1, 0, PRIORITY, 1000)
        now = 0
        for _ in range(130):  # 2 events each, and the ring has 256
            made.admit(1, 0, PRIORITY, 1000, now=now)
            stuck(made, now + POLL, now + 2 * POLL + DETECT)
            now += 2 * POLL + DETECT
            while made.discard(0, now):
                pass
            for _ in range(RESTORE // POLL + 4):
                now += POLL
                made.watch(now)
        numbers = [event.number for event in made.events()]
        assert numbers == list(range(5, 261))
    with rig() as made:
        assert made.watch(1) == NEVER
