# SPDX-License-Identifier: Apache-2.0
"""Find processes by their network namespace, and end them by their ids."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_GRACE_S = 1.0
_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Inhabitant:
    """A process and its network namespace, as (device, inode)."""

    pid: int
    namespace: tuple[int, int]


def inhabitants() -> Iterator[Inhabitant]:
    """All processes of the machine but this one."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                status = (entry / "ns/net").stat()
                yield Inhabitant(int(entry.name), (status.st_dev, status.st_ino))


def end(pids: Iterable[int]) -> tuple[int, ...]:
    """Send SIGTERM, and SIGKILL to those that have not ended after a second. Returns those still running."""
    handles: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handles[pid] = os.pidfd_open(pid)
    try:
        for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _PATIENCE_S)):
            alive = _alive(handles, 0)
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handles[pid], number)
                    signal.pidfd_send_signal(
                        handles[pid], signal.SIGCONT
                    )  # a stopped process handles no other signal
            if not _alive({pid: handles[pid] for pid in alive}, patience_s):
                return ()
        return _alive(handles, 0)
    finally:
        for handle in handles.values():
            os.close(handle)


def _alive(handles: dict[int, int], patience_s: float) -> tuple[int, ...]:
    """Those that have not ended after at most `patience_s`."""
    waiting = {handle: pid for pid, handle in handles.items()}
    poll = select.poll()
    for handle in waiting:
        poll.register(handle, select.POLLIN)
    deadline = time.monotonic() + patience_s
    while waiting:
        left_ms = max(0.0, deadline - time.monotonic()) * 1000
        ended = poll.poll(left_ms)
        for handle, _ in ended:
            poll.unregister(handle)
            del waiting[handle]
        if not ended:
            break
    return tuple(waiting.values())
