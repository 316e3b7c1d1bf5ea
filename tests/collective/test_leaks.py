# SPDX-License-Identifier: Apache-2.0
"""Communicators that are opened and closed many times leave nothing in the process."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np

import hipsnet
from tests.collective.arena import arena

OPENED = 40
BOUND_S = 120.0


class Resources(NamedTuple):
    """What a process holds; memory in bytes."""

    descriptors: int
    threads: int
    memory: int


def resources() -> Resources:
    status = Path("/proc/self/status").read_text()
    threads, memory = (int(status.split(f"{name}:")[1].split()[0]) for name in ("Threads", "VmRSS"))
    return Resources(len(list(Path("/proc/self/fd").iterdir())), threads, memory << 10)


def open_and_close(settings: dict[str, Any], times: int) -> None:
    for number in range(times):
        with hipsnet.init(**settings) as comm:
            comm.all_reduce(np.ones((10, 100_000)[number % 2], np.float32), async_op=True)


def growth(settings: dict[str, Any], times: int) -> Resources:
    """What a rank holds more after it has opened and closed its communicator `times` times."""
    open_and_close(settings, 6)
    before = resources()
    open_and_close(settings, times)
    end_s = monotonic() + BOUND_S
    while resources().threads > before.threads and monotonic() < end_s:
        sleep(0.01)  # a joined thread of Python may still be about to exit
    return Resources(*(now - then for now, then in zip(resources(), before, strict=True)))


def test_communicators_leave_no_descriptor_thread_or_memory(tmp_path: Path, times: int = OPENED) -> None:
    """Less memory than two communicators have, of 4 MiB of staging for each of two neighbours."""

    def body(comm: Any) -> Resources:
        comm.close()
        return growth(asdict(comm._settings), times)

    with arena(tmp_path, "{kind: torus, dims: [3]}") as place:
        for outcome in place.run(body, BOUND_S * (1 + times // 100)):
            assert not outcome.error, outcome.error
            assert outcome.value[:2] == (0, 0)
            assert outcome.value.memory < 16 << 20
