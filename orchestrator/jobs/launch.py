# SPDX-License-Identifier: Apache-2.0
"""Starting a job's programs and staying with them: their output line by line, how they end, nothing left."""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from hipsnet.errors import HipsnetError
from orchestrator.jobs.guard import KILL, STOP, Pipes, Program, adopt_orphans, descendants, guard, kill_strays

Stream = Literal["stdout", "stderr"]
Write = Callable[[int, Stream, bytes], None]
"""Takes (index of the program, stream, one line without its end)."""

LINE_LIMIT = 1 << 16
"""A longer line is passed on in pieces of this many bytes."""


@dataclass(frozen=True)
class Ending:
    """How a program ended: `status` is its exit code, or the negated number of the signal that killed it."""

    program: int
    status: int

    @property
    def code(self) -> int:
        """The exit code as a shell tells it."""
        return self.status if self.status >= 0 else 128 - self.status

    def __str__(self) -> str:
        if self.status >= 0:
            return f"ended with exit code {self.status}"
        return f"was killed by {signal.Signals(-self.status).name}"


@dataclass(frozen=True)
class Outcome:
    """How a job ended: the first failure, and the signal to the launcher that ended the job."""

    failure: Ending | None
    interrupt: signal.Signals | None

    @property
    def code(self) -> int:
        """The exit code for the caller: 0, the first failure's, or 128 + the signal to the launcher."""
        if self.interrupt is not None:
            return 128 + self.interrupt
        return self.failure.code if self.failure else 0


def launch(programs: Sequence[Program], write: Write, grace_s: float = 5.0) -> Outcome:
    """Run the programs and return when they and all that they started are gone.

    The first failure, SIGINT, SIGTERM or SIGHUP ends the rest: SIGTERM, and SIGKILL after `grace_s` seconds
    or on a second signal. Raises HipsnetError if a program cannot be started. For the main thread only.
    """
    with _signals() as interrupts:
        known = set(descendants(os.getpid()))
        adopt_orphans(True)
        job = _fork(programs, grace_s)
        try:
            return _follow(job, interrupts, write)
        finally:
            os.close(job.control)
            if os.waitpid(job.guard, 0)[1]:
                kill_strays(known)
            adopt_orphans(False)
            for descriptor in (job.report, *(end for pair in job.outputs for end in pair)):
                os.close(descriptor)


@dataclass(frozen=True)
class _Job:
    """The launcher's side: the guard's process id and the other ends of its pipes."""

    guard: int
    control: int
    report: int
    outputs: tuple[tuple[int, int], ...]


def _fork(programs: Sequence[Program], grace_s: float) -> _Job:
    control, report = os.pipe(), os.pipe()
    outputs = [(os.pipe(), os.pipe()) for _ in programs]
    ours = _Job(0, control[1], report[0], tuple((out[0], err[0]) for out, err in outputs))
    theirs = Pipes(control[0], report[1], tuple((out[1], err[1]) for out, err in outputs))
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        try:
            _close(ours)
            guard(programs, theirs, grace_s)
        except BaseException:
            sys.excepthook(*sys.exc_info())  # a defect of ours: the programs die with the guard
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    _close(theirs)
    return _Job(process, ours.control, ours.report, ours.outputs)


def _close(ends: _Job | Pipes) -> None:
    for descriptor in (ends.control, ends.report, *(end for pair in ends.outputs for end in pair)):
        os.close(descriptor)


def _follow(job: _Job, interrupts: int, write: Write) -> Outcome:
    """Pass the output on until the guard has closed its report and nobody can write any more."""
    streams: dict[int, tuple[int, Stream]] = {}
    for index, (out, err) in enumerate(job.outputs):
        streams |= {out: (index, "stdout"), err: (index, "stderr")}
    pending = {descriptor: bytearray() for descriptor in (*streams, job.report)}
    failure: Ending | None = None
    interrupt: signal.Signals | None = None
    with selectors.DefaultSelector() as selector:
        for descriptor in (interrupts, *pending):
            selector.register(descriptor, selectors.EVENT_READ)
        while pending:
            for key, _ in selector.select():
                data = os.read(key.fd, LINE_LIMIT)
                if key.fd == interrupts:
                    _order(job.control, STOP if interrupt is None else KILL)
                    interrupt = interrupt or signal.Signals(data[0])
                    continue
                for line in _lines(pending[key.fd], data):
                    if key.fd in streams:
                        write(*streams[key.fd], line)
                    else:
                        failure = failure or _failure(line)
                if key.fd == job.report and not data:
                    _check_guard(job.guard)
                if not data:
                    selector.unregister(key.fd)
                    del pending[key.fd]
    return Outcome(failure, interrupt)


def _check_guard(process: int) -> None:
    """Raise HipsnetError if the guard has not ended well."""
    ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    if ended is None or ended.si_status:
        raise HipsnetError("the job's guard process was killed, and its programs with it; run the job again")


def _failure(line: bytes) -> Ending | None:
    report = json.loads(line)
    if "error" in report:
        raise HipsnetError(f"cannot start the program: {report['error']}")
    return Ending(report["program"], report["status"]) if report["status"] else None


def _lines(pending: bytearray, data: bytes) -> Iterator[bytes]:
    """The lines that `data` completes; no data is the end and gives what is left."""
    pending += data
    *whole, rest = pending.split(b"\n")
    if rest and (not data or len(rest) >= LINE_LIMIT):
        whole.append(rest)
        rest = bytearray()
    pending[:] = rest
    yield from map(bytes, whole)


def _order(control: int, order: bytes) -> None:
    with suppress(BrokenPipeError):  # the guard is gone already
        os.write(control, order)


@contextmanager
def _signals() -> Iterator[int]:
    """Turn SIGINT, SIGTERM and SIGHUP into bytes on a pipe for the length of the block."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def note(number: int, _: object) -> None:
        os.write(writer, bytes([number]))

    before = {
        number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield reader
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
