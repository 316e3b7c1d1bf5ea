"""The watchdog in the forwarding program: a storm begins, costs what its action says, and ends, on real clocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hipsnet.node.storms import Storm, has_watchdog, read_storms, set_watchdog
from hipsnet.node.watchdog import Action, Watchdog
from tests.kernel.frames import PORT2, ethernet, ipv4, pfc
from tests.kernel.rig import Rig
from tests.kernel.sockets import endpoint

FAR = "10.1.9.9"  # leaves by port 1
PRIORITY = 3
RATE = 20_000_000  # an XOFF lasts 1.7 s
DETECT_MS, RESTORE_MS = 400, 200
XOFF, XON = pfc(1 << PRIORITY), pfc(1 << PRIORITY, (0,) * 8)
PAUSED = ethernet(ipv4(FAR, tos=26 << 2))
OTHERS = ethernet(ipv4(FAR, tos=0))
"""Of priority 0, which nobody pauses."""


@contextmanager
def watched(router: Rig, action: Action) -> Iterator[int]:
    """A watchdog on the router; how many storms there were before."""
    watchdog = Watchdog(DETECT_MS, RESTORE_MS, action, RATE)
    before = sum(storm.number for storm in read_storms(router.fabric, router.node))
    assert not has_watchdog(router.fabric, router.node, watchdog)
    set_watchdog(router.fabric, router.node, watchdog)
    try:
        assert has_watchdog(router.fabric, router.node, watchdog)
        yield before
    finally:
        router.run(XON, port=1)
        time.sleep(RESTORE_MS / 1e3)
        router.run(PAUSED)
        set_watchdog(router.fabric, router.node, None)


def reason(router: Rig, frame: bytes, port: int = 0) -> str:
    (found,) = router.counted(frame, port)[2]
    return found


def storm(router: Rig) -> Storm:
    (found,) = read_storms(router.fabric, router.node)
    return found


@pytest.mark.parametrize("action", ["drop", "forward", "alert"])
def test_without_any_process_a_storm_is_seen_and_its_end(router: Rig, action: Action) -> None:
    after = "drop_storm" if action == "drop" else "forwarded"
    with watched(router, action) as before:
        assert reason(router, XOFF, port=1) == "drop_pfc"
        assert reason(router, PAUSED) == "forwarded"  # not for so long, and nobody could hold it
        time.sleep(DETECT_MS / 1e3)
        assert reason(router, OTHERS) == "forwarded"
        assert sum(found.number for found in read_storms(router.fabric, router.node)) == before
        assert reason(router, PAUSED) == after
        assert reason(router, ethernet(ipv4(FAR, tos=26 << 2), to=PORT2), port=2) == after
        assert reason(router, OTHERS) == "forwarded"
        seen = storm(router)
        assert (seen.port, seen.priority, seen.action, seen.number) == (1, PRIORITY, action, before + 1)
        assert (seen.victims, seen.over_ns) == ((0, 2), None)
        assert seen.lost == (2 if action == "drop" else 0)
        assert seen.seen_ns - seen.since_ns >= DETECT_MS * 1e6
        router.run(XON, port=1)
        assert reason(router, PAUSED) == after  # not quiet for long enough
        assert storm(router).over_ns is None
        time.sleep(RESTORE_MS / 1e3)
        assert storm(router).over_ns is not None
        assert reason(router, PAUSED) == "forwarded"
        assert storm(router).over_ns > seen.seen_ns + RESTORE_MS * 1e6
        assert storm(router).number == before + 1


def test_a_pause_with_gaps_is_no_storm(router: Rig) -> None:
    with watched(router, "drop") as before:
        for _ in range(4):
            router.run(XOFF, port=1)
            time.sleep(DETECT_MS / 2e3)
            assert reason(router, PAUSED) == "forwarded"
            router.run(XON, port=1)
        assert sum(found.number for found in read_storms(router.fabric, router.node)) == before


def test_a_pause_that_is_told_again_is_one_pause(router: Rig) -> None:
    with watched(router, "drop") as before:
        for _ in range(4):
            router.run(XOFF, port=1)
            time.sleep(DETECT_MS / 3e3)
        assert reason(router, PAUSED) == "drop_storm"
        assert storm(router).number == before + 1


def test_where_nothing_wants_to_leave_nobody_is_held_up(router: Rig) -> None:
    with watched(router, "drop") as before:
        router.run(XOFF, port=1)
        time.sleep(1.5 * DETECT_MS / 1e3)
        router.run(XON, port=1)
        assert reason(router, PAUSED) == "forwarded"
        assert sum(found.number for found in read_storms(router.fabric, router.node)) == before


def test_without_a_watchdog_pauses_change_nothing(router: Rig) -> None:
    router.run(XOFF, port=1)
    assert reason(router, PAUSED) == "forwarded"
    with endpoint(router, 0):
        assert reason(router, PAUSED) == "forwarded"  # it looks after no pauses
