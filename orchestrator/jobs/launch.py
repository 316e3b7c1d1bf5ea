# SPDX-License-Identifier: Apache-2.0
"""Run a job's programs: pass on their output line by line, collect their endings, and leave no process."""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal

from hipsnet.errors import HipsnetError
from hipsnet.failures import Failure
from orchestrator.jobs.failures import Inbox
from orchestrator.jobs.guard import KILL, STOP, Pipes, Program, adopt_orphans, descendants, guard, kill_strays

Stream = Literal["stdout", "stderr"]
Write = Callable[[int, Stream, bytes], None]
"""Takes (index of the program, stream, one line without its end)."""

LINE_LIMIT = 1 << 20
"""A longer line is passed on in pieces of this many bytes."""

_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Ending:
    """How a program ended, `time_s` after the start of the job.

    `status` is its exit code, or the negated number of the signal that killed it. `is_ordered`: it
    ended after the launcher had begun to end the job. `failure` is the exception that it reported.
    """

    program: int
    status: int
    time_s: float
    is_ordered: bool
    failure: Failure | None = None

    @property
    def code(self) -> int:
        """The exit code in the convention of shells."""
        return self.status if self.status >= 0 else 128 - self.status

    def __str__(self) -> str:
        if self.status >= 0:
            return f"ended with exit code {self.status}"
        return f"was killed by {signal.Signals(-self.status).name}"

    @property
    def precedence(self) -> int:
        """The lower the number, the more likely this ending caused the others."""
        if self.status < 0 and not self.is_ordered:
            return 0
        if self.failure is None:
            return 2
        if self.failure.is_survivor:
            return 5
        return 4 if self.is_ordered else 3 if self.failure.is_expected else 1

    @property
    def may_be_cause(self) -> bool:
        """Whether the program failed, other than by being ended by the launcher."""
        by_itself = not self.is_ordered or (self.failure is not None and not self.failure.is_survivor)
        return self.status != 0 and by_itself


@dataclass(frozen=True)
class Outcome:
    """How a job that began at the Unix time `started_s` ended: its programs, and a signal to the launcher."""

    endings: tuple[Ending, ...]
    interrupt: signal.Signals | None
    started_s: float
    duration_s: float

    @property
    def failure(self) -> Ending | None:
        """The failure that caused the others: crashes precede exceptions, and those precede lost connections."""
        failed = [ending for ending in self.endings if ending.may_be_cause]
        return min(failed, key=lambda ending: (ending.precedence, ending.time_s), default=None)

    @property
    def code(self) -> int:
        """The exit code for the caller: 0, that of the failure, or 128 + the signal to the launcher."""
        if self.interrupt is not None:
            return 128 + self.interrupt
        return self.failure.code if self.failure else 0


@dataclass(frozen=True)
class LaunchOptions:
    """The options of `launch`.

    `prepare` is called in the guard before it starts the programs. Failure reports are read from `inbox`; they are
    part of the outcome, and each is also passed to `on_failure` at once. Lines of more than `line_limit` bytes are
    split. `grace_s` is the time between SIGTERM and SIGKILL.
    """

    prepare: Callable[[], None] | None = None
    inbox: Inbox | None = None
    on_failure: Callable[[Failure], None] = lambda _: None
    line_limit: int = LINE_LIMIT
    grace_s: float = 5.0


DEFAULTS = LaunchOptions()


def launch(programs: Sequence[Program], write: Write, options: LaunchOptions = DEFAULTS) -> Outcome:
    """Run the programs and return when they and all their descendants have ended.

    The first failure, SIGINT, SIGTERM or SIGHUP ends the rest: SIGTERM, and SIGKILL after `grace_s` seconds or on a
    second signal. After a failure the other programs first have `SETTLE_S` to fail by themselves and to report why.
    Raises HipsnetError if a program cannot be started. For the main thread only.
    """
    with _signals() as interrupts:
        known = set(descendants(os.getpid()))
        adopt_orphans(True)
        job = _fork(programs, options)
        try:
            return _Follower(job, interrupts, write, options).follow()
        finally:
            os.close(job.control)
            if os.waitpid(job.guard, 0)[1]:
                kill_strays(known)
            adopt_orphans(False)
            for descriptor in (job.report, *(end for pair in job.outputs for end in pair)):
                os.close(descriptor)


@dataclass(frozen=True)
class _Job:
    """The launcher's side of a job: the guard's process id and the other ends of its pipes."""

    guard: int
    control: int
    report: int
    outputs: tuple[tuple[int, int], ...]


def _fork(programs: Sequence[Program], options: LaunchOptions) -> _Job:
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
            guard(programs, theirs, options.grace_s, options.prepare)
        except BaseException:
            sys.excepthook(*sys.exc_info())  # a defect of hipsnet: the programs end with the guard
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    _close(theirs)
    return _Job(process, ours.control, ours.report, ours.outputs)


def _close(ends: _Job | Pipes) -> None:
    for descriptor in (ends.control, ends.report, *(end for pair in ends.outputs for end in pair)):
        os.close(descriptor)


class _Follower:
    """The launcher while its job runs: passes output on, and collects endings and failure reports."""

    def __init__(self, job: _Job, interrupts: int, write: Write, options: LaunchOptions) -> None:
        self._job, self._interrupts, self._write, self._options = job, interrupts, write, options
        self._started_s, self._started = time.time(), time.monotonic()
        self._streams: dict[int, tuple[int, Stream]] = {}
        for index, (out, err) in enumerate(job.outputs):
            self._streams |= {out: (index, "stdout"), err: (index, "stderr")}
        self._pending = {descriptor: bytearray() for descriptor in (*self._streams, job.report)}
        self._endings: list[Ending] = []
        self._failures: dict[int, Failure] = {}
        self._interrupt: signal.Signals | None = None

    def follow(self) -> Outcome:
        """Return when the guard and all programs have closed their pipes."""
        with selectors.DefaultSelector() as selector:
            for descriptor in (self._interrupts, *self._pending):
                selector.register(descriptor, selectors.EVENT_READ)
            if self._options.inbox:
                selector.register(self._options.inbox, selectors.EVENT_READ)
            while self._pending:
                for key, _ in selector.select():
                    if not self._take(key.fd):
                        selector.unregister(key.fd)
                        del self._pending[key.fd]
        self._read_failures()
        endings = tuple(
            replace(ending, failure=self._failures.get(ending.program)) for ending in self._endings
        )
        return Outcome(endings, self._interrupt, self._started_s, time.monotonic() - self._started)

    def _take(self, descriptor: int) -> bool:
        """Read the data available at a descriptor; False at its end."""
        if self._options.inbox and descriptor == self._options.inbox.fileno():
            self._read_failures()
            return True
        data = os.read(descriptor, _READ_BYTES)
        if descriptor == self._interrupts:
            _order(self._job.control, STOP if self._interrupt is None else KILL)
            self._interrupt = self._interrupt or signal.Signals(data[0])
            return True
        for line in _lines(self._pending[descriptor], data, self._options.line_limit):
            if descriptor in self._streams:
                self._write(*self._streams[descriptor], line)
            else:
                self._endings.append(_ending(line, time.monotonic() - self._started))
        if descriptor == self._job.report and not data:
            _check_guard(self._job.guard)
        return bool(data)

    def _read_failures(self) -> None:
        for failure in self._options.inbox.read() if self._options.inbox else ():
            if 0 <= failure.rank < len(self._job.outputs):
                self._failures.setdefault(failure.rank, failure)
                self._options.on_failure(failure)


def _check_guard(process: int) -> None:
    """Raise HipsnetError unless the guard ended with exit code 0."""
    ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    if ended is None or ended.si_status:
        raise HipsnetError("the job's guard process was killed, and its programs with it; run the job again")


def _ending(line: bytes, time_s: float) -> Ending:
    report = json.loads(line)
    if "error" in report:
        raise HipsnetError(f"cannot start the program: {report['error']}")
    return Ending(report["program"], report["status"], time_s, report["ordered"])


def _lines(pending: bytearray, data: bytes, limit: int) -> Iterator[bytes]:
    """The lines that `data` completes; empty `data` means the end and yields the rest."""
    start = len(pending)
    pending += data
    if data and b"\n" not in data and len(pending) < limit:
        return
    end = pending.rfind(b"\n", start) + 1
    whole, rest = pending[: max(end - 1, 0)], pending[end:]
    if end:
        yield from map(bytes, whole.split(b"\n"))
    while len(rest) > limit or (rest and not data):
        yield bytes(rest[:limit])
        del rest[:limit]
    pending[:] = rest


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
