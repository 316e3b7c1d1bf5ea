# SPDX-License-Identifier: Apache-2.0
"""Processes that are stopped at intervals, as on an overloaded machine."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

Found = Callable[[], Iterable[int]]


@contextmanager
def stopped_now_and_then(found: Found, stopped_s: float, going_s: float) -> Iterator[list[int]]:
    """Stop one process at a time for `stopped_s`; yield the list of stopped process ids.

    Runs with real-time priority, above the processes: a late SIGCONT would prolong the stop.
    """
    ends, have_stopped, dice = threading.Event(), list[int](), random.Random(1)

    def work() -> None:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(3))
        while not ends.wait(going_s):
            pids = sorted(found())
            if pids:
                pid = dice.choice(pids)
                have_stopped.append(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    ends.wait(stopped_s)
                    os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield have_stopped
    finally:
        ends.set()
        thread.join()


@contextmanager
def busy_processors(loops_each: int = 2) -> Iterator[None]:
    """Run busy loops on each CPU."""
    count = loops_each * len(os.sched_getaffinity(0))
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
