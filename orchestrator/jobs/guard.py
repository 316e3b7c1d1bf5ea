# SPDX-License-Identifier: Apache-2.0
"""The guard of a job: the process that starts the programs, and ends after all their descendants.

The launcher forks it before anything else. It has a single thread and adopts orphans, so every process that a
program starts stays below it. When the launcher ends, in whatever way, the control pipe is closed and the guard
ends all programs. If the guard is killed, the kernel kills the programs, and the launcher adopts and kills their
descendants.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from hipsnet.errors import HipsnetError
from orchestrator.lab import account, execution
from orchestrator.lab.account import Account

STOP, KILL = b"s", b"k"
"""Orders on the control pipe: end the programs after a grace period, or at once."""

SETTLE_S = 2.0
"""The time after the first failure in which the other programs may detect it and fail by themselves."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Program:
    """One program of a job, with its namespace, command, environment and user.

    `namespace` None is the launcher's own; else the program's hostname is `server`, and `hosts` is its hosts file.
    `account` None is the launcher's user.
    """

    server: str
    namespace: str | None
    command: tuple[str, ...]
    environment: dict[str, str]
    hosts: str = ""
    account: Account | None = None


@dataclass(frozen=True)
class Pipes:
    """The guard's ends of the pipes: one output and one error descriptor for each program."""

    control: int
    report: int
    outputs: tuple[tuple[int, int], ...]


def guard(
    programs: Sequence[Program], pipes: Pipes, grace_s: float, prepare: Callable[[], None] | None = None
) -> None:
    """Run the programs until all have ended, one has failed, or the launcher orders it; then end the others.

    Reports each ending as a JSON line {"program": index, "status": exit code, negative for a signal, "ordered":
    whether the guard had begun to end the programs}, and a program that could not be started as {"program": index,
    "error": reason}. `prepare` is called before the first
    program; processes that it starts end with the programs. Call it in a fresh fork and exit.
    """
    os.setsid()  # the terminal's Ctrl-C is for the launcher
    adopt_orphans(True)
    wake = _wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    running: dict[int, int] = {}
    try:
        if prepare:
            prepare()
    except HipsnetError as error:
        _report(pipes.report, program=0, error=str(error))
        programs = ()
    for index, program in enumerate(programs):
        running[_start(index, program, pipes)] = index
    for pair in pipes.outputs:
        for descriptor in pair:
            os.close(descriptor)
    _watch(running, pipes, wake)
    _end(running, pipes, wake, grace_s)


def _start(index: int, program: Program, pipes: Pipes) -> int:
    """Fork the program's process, which itself reports an error if it cannot execute the program."""
    parent = os.getpid()
    process = os.fork()  # safe: the guard has a single thread
    if process:
        return process
    try:
        _become(program, pipes.outputs[index], parent)
    except OSError as error:
        _report(pipes.report, program=index, error=f"{program.command[0]}: {error.strerror}")
    except BaseException as error:
        _report(pipes.report, program=index, error=str(error))
    os._exit(127)


def _become(program: Program, outputs: tuple[int, int], parent: int) -> NoReturn:
    signal.set_wakeup_fd(-1)
    execution.restore_signals()
    os.setsid()
    if program.namespace is not None:
        execution.enter(program.namespace, program.server, program.hosts)
    if program.account is not None:
        account.become(program.account)
    die_with_parent(parent)  # last, because a change of user clears it
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that listed them is closed
            os.set_inheritable(int(entry.name), False)
    # If the launcher was started without standard streams, other descriptors have the numbers 0 to 2.
    streams = [
        fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (os.open(os.devnull, os.O_RDONLY), *outputs)
    ]
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.execvpe(program.command[0], program.command, program.environment)


def die_with_parent(parent: int) -> None:
    """Make the kernel kill the calling process when its parent, the process `parent`, ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _watch(running: dict[int, int], pipes: Pipes, wake: int) -> None:
    """Return when all programs have ended, SETTLE_S after a program failed, or on an order to end them."""
    deadline: float | None = None
    while running and (deadline is None or time.monotonic() < deadline):
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([pipes.control, wake], [], [], left)
        if pipes.control in ready:
            return
        if wake in ready and set(os.read(wake, 4096)) - {signal.SIGCHLD}:
            return
        if any(_reap(running, pipes.report, False)[0]) and deadline is None:
            deadline = time.monotonic() + SETTLE_S


def _end(running: dict[int, int], pipes: Pipes, wake: int, grace_s: float) -> None:
    """End all descendants: SIGTERM, then SIGKILL after `grace_s` seconds or on the order; until none lives."""
    _reap(running, pipes.report, False)
    deadline = time.monotonic() + grace_s
    _signal(descendants(os.getpid()), signal.SIGTERM, signal.SIGCONT)
    listening = [wake, pipes.control]
    while _reap(running, pipes.report, True)[1]:
        left = deadline - time.monotonic()
        if left <= 0:
            _signal(descendants(os.getpid()), signal.SIGKILL)
            left = 0.05
        ready, _, _ = select.select(listening, [], [], left)
        if wake in ready:
            os.read(wake, 4096)
        if pipes.control in ready:
            order = os.read(pipes.control, 1)
            if order == KILL:
                deadline = 0.0
            elif not order:
                listening.remove(pipes.control)


def _reap(running: dict[int, int], report: int, ordered: bool) -> tuple[list[int], bool]:
    """Reap ended children and report the programs among them; returns their statuses, and if children are left."""
    statuses = []
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] in running:
                status = os.waitstatus_to_exitcode(ended[1])
                _report(report, program=running.pop(ended[0]), status=status, ordered=ordered)
                statuses.append(status)
    except ChildProcessError:
        return statuses, False
    return statuses, True


def adopt_orphans(adopt: bool) -> None:
    """Make orphaned descendants children of the calling process (True), or of init (False)."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))


def kill_strays(known: set[int]) -> None:
    """Kill and reap all descendants of the calling process except the `known` ones."""
    while strays := set(descendants(os.getpid())) - known:
        _signal(strays, signal.SIGKILL)
        for process in strays:
            with suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.01)


def descendants(root: int) -> list[int]:
    """The descendants of the process `root`, from /proc; some of them may have ended meanwhile."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_bytes()
            except OSError:
                continue
            parent = int(stat[stat.rindex(b")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(root, ()))
    for process in found:  # grows while it is walked
        found.extend(children.get(process, ()))
    return found


def _signal(processes: Iterable[int], *signals: signal.Signals) -> None:
    for process in processes:
        for number in signals:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                break


def _wake_on(*signals: signal.Signals) -> int:
    """Turn the signals into bytes on a pipe. The programs start with the default actions again."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)
    return reader


def _report(descriptor: int, **fields: int | str) -> None:
    with suppress(BrokenPipeError):  # the launcher is gone
        os.write(descriptor, json.dumps(fields).encode() + b"\n")
