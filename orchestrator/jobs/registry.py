# SPDX-License-Identifier: Apache-2.0
"""The running jobs of a fabric: `running_jobs(fabric)` lists them, `registered(...)` adds one while it runs.

A job is one file, /run/hipsnet/<fabric>/jobs/<pid>.json, that names the launcher's process and its start time.
A file whose process has ended is ignored, and removed by the next job, so a launcher that was killed leaves no
stale entry.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hipsnet.errors import CapabilityError
from orchestrator.lab import state

_FOLDER = "jobs"


@dataclass(frozen=True)
class Job:
    """One `hipsnet run`: the launcher's process id, its command, its user, and its start.

    `started_s` is the Unix time; `start_ticks` (field 22 of /proc/<pid>/stat) distinguishes the process from a
    later one with the same id.
    """

    pid: int
    command: str
    user: str
    started_s: float
    start_ticks: int

    @property
    def since(self) -> str:
        """The start in local time: 2026-11-23 01:02:03."""
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.started_s))


def folder(fabric: str) -> Path:
    """The folder of a fabric's running jobs."""
    return state.folder(fabric) / _FOLDER


def running_jobs(fabric: str) -> tuple[Job, ...]:
    """Return the running jobs of a fabric, the oldest first. Needs no privilege; empty for an unknown fabric."""
    jobs = [job for path in folder(fabric).glob("*.json") if (job := _read(path)) and _is_running(job)]
    return tuple(sorted(jobs, key=lambda job: (job.started_s, job.pid)))


@contextlib.contextmanager
def registered(fabric: str, command: str, user: str) -> Iterator[Sequence[Job]]:
    """List this process as a job of the fabric for the length of the block; yields the other running jobs.

    Of two jobs that start at the same moment, at least one sees the other. Raises CapabilityError without root,
    OSError if /run is full.
    """
    pid = os.getpid()
    path = folder(fabric) / f"{pid}.json"
    _remove_stale(fabric)
    ticks = _start_ticks(pid)
    assert ticks is not None, "this process is in /proc"
    _write(path, Job(pid, command, user, time.time(), ticks))
    try:
        yield [job for job in running_jobs(fabric) if job.pid != pid]
    finally:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another job is listed, or a destroy removed the folder
            path.parent.rmdir()
        state.remove_empty(state.folder(fabric))


def _write(path: Path, job: Job) -> None:
    while True:
        try:
            return state.write_json(path, asdict(job))
        except FileNotFoundError:  # a job that ended has just removed the folder
            continue
        except PermissionError:
            raise CapabilityError(f"a job in a lab requires root: cannot write {path}; run as root") from None


def _remove_stale(fabric: str) -> None:
    for path in folder(fabric).glob("*.json"):
        job = _read(path)
        if job is None or not _is_running(job):
            path.unlink(missing_ok=True)


def _read(path: Path) -> Job | None:
    try:
        return Job(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):  # removed meanwhile, or not written by this version
        return None


def _is_running(job: Job) -> bool:
    return _start_ticks(job.pid) == job.start_ticks


def _start_ticks(pid: int) -> int | None:
    """The start of a process in clock ticks since boot; None if there is none, or only its exit status is left."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    state_letter, *rest = stat[stat.rindex(")") + 2 :].split()
    return None if state_letter in "ZX" else int(rest[18])
