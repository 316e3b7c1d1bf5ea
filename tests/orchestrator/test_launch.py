# SPDX-License-Identifier: Apache-2.0
"""The launcher: exit codes, output, and no processes left however a job ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

DRIVER = """
import json, os, sys
from orchestrator.jobs.guard import Program
from orchestrator.jobs.launch import LaunchOptions, launch
from orchestrator.jobs.output import prefixed
grace_s, *scripts = json.loads(sys.argv[1])
environment = dict(os.environ)
programs = [Program(f"s{i}", None, ("bash", "-c", script), environment) for i, script in enumerate(scripts)]
options = LaunchOptions(grace_s=grace_s)
sys.exit(launch(programs, prefixed([program.server for program in programs]), options).code)
"""
# Each prints "ready"; FAMILY leaves the process group, STUBBORN ignores SIGTERM.
SLEEPER = "echo ready; sleep 600"
FAMILY = "setsid sleep 600 & (sleep 600 &) ; echo ready; sleep 600"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 600; done"


class Job:
    """A launcher in a separate process; all its descendants carry a mark in their environment."""

    def __init__(self) -> None:
        self.mark = f"HIPSNET_TEST_JOB={uuid.uuid4().hex}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *scripts: str, grace_s: float = 1.0) -> subprocess.Popen[bytes]:
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, json.dumps([grace_s, *scripts])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, name: value},
        )
        return self.process

    def wait_ready(self, count: int) -> None:
        """Read until `count` programs have reported that they are ready."""
        assert self.process is not None and self.process.stdout is not None
        for _ in range(count):
            assert self.process.stdout.readline().endswith(b"ready\n")

    def alive(self) -> dict[int, str]:
        """The living processes that carry the mark, zombies left out."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal() and self.mark.encode() in (entry / "environ").read_bytes().split(
                    b"\0"
                ):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        return found

    def left(self, patience_s: float = 10.0) -> dict[int, str]:
        """The descendants still alive after `patience_s` without progress."""
        deadline = time.monotonic() + patience_s
        while (found := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


@pytest.fixture
def job() -> Iterator[Job]:
    started = Job()
    yield started
    while alive := started.alive():
        for process in alive:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    if started.process is not None:
        started.process.communicate()


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -KILL $$", 137), ("kill -TERM $$", 143)],
)
def test_exit_code_is_passed_on(job: Job, script: str, code: int) -> None:
    process = job.start("exit 0", script)
    process.communicate()
    assert process.returncode == code
    assert job.alive() == {}


@pytest.mark.parametrize("companion", [SLEEPER, FAMILY, STUBBORN])
def test_first_failure_ends_the_rest(job: Job, companion: str) -> None:
    process = job.start(companion, "sleep 0.5; exit 7", SLEEPER)
    process.communicate(timeout=60)
    assert process.returncode == 7
    assert job.alive() == {}


def test_success_leaves_no_descendants(job: Job) -> None:
    process = job.start("setsid sleep 600 >/dev/null 2>&1 & exit 0", "exit 0")
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert job.alive() == {}


def test_the_launcher_waits_for_all_programs(job: Job) -> None:
    out, _ = job.start("echo first", "sleep 0.5; echo last").communicate()
    assert out.splitlines() == [b"[s0] first", b"[s1] last"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_to_the_launcher_leaves_nothing(job: Job, number: signal.Signals, code: int) -> None:
    process = job.start(SLEEPER, FAMILY, STUBBORN)
    job.wait_ready(3)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert job.alive() == {}


def test_a_second_interrupt_does_not_wait(job: Job) -> None:
    process = job.start(STUBBORN, "trap 'echo asked; exit 0' TERM; echo ready; sleep 600 & wait", grace_s=600)
    job.wait_ready(2)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"[s1] asked\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert job.alive() == {}


def test_a_stopped_program_is_ended(job: Job) -> None:
    process = job.start("echo ready; kill -STOP $$", "sleep 1; exit 3", grace_s=600)
    job.wait_ready(1)
    process.communicate(timeout=60)
    assert process.returncode == 3
    assert job.alive() == {}


def test_a_killed_launcher_leaves_nothing(job: Job) -> None:
    process = job.start(SLEEPER, FAMILY, STUBBORN)
    job.wait_ready(3)
    process.kill()
    assert job.left() == {}


def test_a_killed_guard_ends_the_programs(job: Job) -> None:
    process = job.start(SLEEPER, FAMILY, STUBBORN)
    job.wait_ready(3)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"guard process was killed" in err
    assert job.alive() == {}


def test_a_closed_output_ends_the_job(job: Job) -> None:
    process = job.start("while sleep 0.01; do echo line; done", SLEEPER)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    process.wait(timeout=60)
    assert process.returncode != 0
    assert job.alive() == {}


def test_lines_are_prefixed_and_whole(job: Job) -> None:
    script = "for i in $(seq 500); do echo out-$0-$i; echo err-$i >&2; done; printf tail"
    out, err = job.start(*[script] * 4).communicate()
    for index in range(4):
        prefix = f"[s{index}] ".encode()
        mine = [line[len(prefix) :] for line in out.splitlines() if line.startswith(prefix)]
        assert mine == [f"out-bash-{i}".encode() for i in range(1, 501)] + [b"tail"]
        assert err.splitlines().count(prefix + b"err-500") == 1
    assert len(out.splitlines()) == 4 * 501
    assert len(err.splitlines()) == 4 * 500


@pytest.mark.parametrize("length", [1 << 16, (1 << 20) - 1, 1 << 20])
def test_a_line_of_a_mebibyte_stays_whole(job: Job, length: int) -> None:
    script = f"echo before; head -c {length} /dev/zero | tr '\\0' x; echo; printf tail"
    out, _ = job.start(script, script).communicate()
    lines = out.splitlines()
    for name in (b"[s0] ", b"[s1] "):
        mine = [line.removeprefix(name) for line in lines if line.startswith(name)]
        assert mine == [b"before", b"x" * length, b"tail"]
    assert len(lines) == 6


def test_a_longer_line_comes_in_pieces(job: Job) -> None:
    out, _ = job.start("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo after").communicate()
    *pieces, last = [line.removeprefix(b"[s0] ") for line in out.splitlines()]
    assert (b"".join(pieces), last) == (b"x" * 3_000_000, b"after")
    assert max(map(len, pieces)) < 1 << 21


def test_the_programs_have_default_signals_and_no_foreign_descriptors(job: Job) -> None:
    # Signals ignored by the caller stay ignored (nohup, background jobs), so the caller ignores none here.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    out, _ = job.start("grep -E 'SigIgn|SigCgt' /proc/self/status; ls /proc/self/fd").communicate()
    lines = [line.split()[-1] for line in out.splitlines()]
    assert lines[0] == b"0" * 16, "a signal is ignored"
    assert lines[2:] == [b"0", b"1", b"2", b"3"]  # 3 is what ls itself reads


def test_a_program_that_cannot_start_ends_the_others(job: Job) -> None:
    program = "[Program('s0', None, ('sleep', '600'), dict(os.environ)), Program('s1', None, ('/none',), {})]"
    code = DRIVER.replace("launch(programs,", f"launch({program},")
    process = subprocess.run(
        [sys.executable, "-c", code, json.dumps([1, "", ""])],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "HIPSNET_TEST_JOB": job.mark.split("=")[1]},
        capture_output=True,
        timeout=60,
    )
    assert process.returncode == 1
    assert b"cannot start the program" in process.stderr and b"/none" in process.stderr
    assert job.alive() == {}
