# SPDX-License-Identifier: Apache-2.0
"""The end of a job: one message for a failure, partial results after an interrupt, logs in every case."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.jobs import registry
from orchestrator.lab import delay_line, soft_switch
from tests.lab.rig import BCUBE_2_2, REPOSITORY, Done, Lab, command_line, hipsnet_process

MakeLab = Callable[..., Lab]

PROGRAM = """
import os, signal, sys, time
import numpy as np, hipsnet
how = sys.argv[1]
with hipsnet.init() as comm:
    for number in range(1_000_000):
        comm.all_reduce(np.ones(1000, np.float32))
        if number == 20 and comm.rank == 2:
            if how == "kill": os.kill(os.getpid(), signal.SIGKILL)
            if how == "raise": raise ValueError("a bad thing")
            if how == "exit": sys.exit(7)
            if how == "freeze": os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture(scope="module")
def lab(make_shared_lab: MakeLab) -> Lab:
    """A BCube(2,2) shared by the tests, which do not change it."""
    lab = make_shared_lab(BCUBE_2_2)
    lab.provision()
    return lab


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "train.py"
    path.write_text(PROGRAM)
    return path


def ours(done: Done) -> list[str]:
    """The lines of the launcher."""
    return [line for line in done.stderr.splitlines() if line.startswith("hipsnet: ")]


@pytest.mark.parametrize(
    ("how", "code", "first"),
    [
        ("kill", 137, r"s10 \(rank 2\) was killed by SIGKILL, \d+\.\d s after the start, at \d\d:\d\d:\d\d"),
        ("raise", 1, r"s10 \(rank 2\) failed: ValueError: a bad thing, \d+\.\d s after the start, at .*"),
        ("exit", 7, r"s10 \(rank 2\) ended with exit code 7, \d+\.\d s after the start, at .*"),
    ],
)
def test_a_failure_is_one_message(lab: Lab, program: Path, how: str, code: int, first: str) -> None:
    done = hipsnet_process("run", lab.file, "--", "python", program, how)
    assert done.returncode == code
    lines = ours(done)
    assert len(lines) == 2, done.stderr
    assert re.fullmatch(f"hipsnet: {first}", lines[0]), lines
    assert lines[1].startswith("hipsnet: the other 3 ranks: ") and "--verbose" in lines[1]
    # Only the rank that failed first prints a traceback, its own.
    assert "CollectiveError" not in re.sub(r"^hipsnet: .*$", "", done.stderr, flags=re.MULTILINE)
    assert done.stderr.count("Traceback") == (1 if how == "raise" else 0)


def test_a_silent_rank_is_named_by_the_ranks_that_wait_for_it(lab: Lab, program: Path) -> None:
    done = hipsnet_process(
        "run", lab.file, "--timeout", "2", "--warn", "1", "--", "python", program, "freeze"
    )
    assert done.returncode == 1
    cause, others = ours(done)
    assert "failed: CollectiveError: " in cause and "rank 2" in cause and "silent for 2." in cause
    assert others.startswith("hipsnet: the other 3 ranks: ")
    assert "Traceback" not in done.stderr


def test_verbose_shows_every_traceback(lab: Lab, program: Path, tmp_path: Path) -> None:
    done = hipsnet_process(
        "run", lab.file, "--verbose", "--log-dir", tmp_path / "logs", "--", "python", program, "kill"
    )
    assert done.returncode == 137
    for name in ("s00", "s01", "s11"):
        assert f"[{name}] Traceback (most recent call last):" in done.stderr
        log = (tmp_path / "logs" / f"{name}.log").read_text()
        assert log.startswith("Traceback") and "hipsnet.errors.CollectiveError: " in log.splitlines()[-1]
    assert (tmp_path / "logs/s10.log").read_text() == ""


def test_a_report_that_cannot_be_delivered_is_printed_as_always(lab: Lab, program: Path) -> None:
    done = hipsnet_process(
        "run", lab.file, "--", "env", "HIPSNET_FAILURES=/nowhere", "python", program, "kill"
    )
    assert done.returncode == 137
    assert done.stderr.count("Traceback (most recent call last):") == 3
    assert "s10 (rank 2) was killed by SIGKILL" in done.stderr


def interrupted(command: list[str], number: signal.Signals, ready: Callable[[str], bool]) -> Done:
    """Run a command until it prints the expected text, then send it a signal."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if ready(line):
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    return Done(process.returncode, "".join(lines) + out, err)


def test_an_interrupt_reports_what_was_stopped(lab: Lab) -> None:
    command = command_line("run", lab.file, "--", "sh", "-c", "echo ready; sleep 600")
    done = interrupted(command, signal.SIGINT, lambda line: "s11" in line)
    assert done.returncode == 130
    assert re.fullmatch(
        r"hipsnet: SIGINT after \d+\.\d s: stopped `sh -c 'echo ready; sleep 600'` on all 4 servers",
        done.stderr.strip(),
    )


def test_an_interrupted_measurement_keeps_its_results(lab: Lab, tmp_path: Path) -> None:
    options = ("-b", "1K", "-e", "256M", "-f", "262144", "-n", "500", "-w", "0", "-c")
    command = command_line("run", lab.file, *options, "--json", tmp_path / "out.json")
    done = interrupted(command, signal.SIGTERM, lambda line: line.split()[:1] == ["1024"])
    assert done.returncode == 143
    assert re.search(
        r"hipsnet: SIGTERM after .*: stopped the measurement at 256MiB, iteration \d+ of 500, "
        r"1 of 2 sizes done, on all 4 servers",
        done.stderr,
    )
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["complete"] is False
    (result,) = document["results"]
    assert (result["bytes"], result["correct"], len(result["times_s"])) == (1024, True, 500)


def test_a_second_job_is_warned_and_runs(lab: Lab) -> None:
    """A running measurement is in the fabric's list of jobs."""
    command = command_line("run", lab.file, "--size", "64K", "-n", "100000")
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=REPOSITORY
    ) as first:
        end = time.monotonic() + 30
        while not (jobs := registry.running_jobs(lab.name)):
            assert time.monotonic() < end
            time.sleep(0.05)
        done = hipsnet_process("run", lab.file, "--", "true")
        first.terminate()
    assert [job.pid for job in jobs] == [first.pid]
    assert done.returncode == 0 and f"process {first.pid} of root" in done.stderr
    assert registry.running_jobs(lab.name) == ()
    assert not registry.folder(lab.name).exists()


@pytest.mark.parametrize("what", ["soft switch", "delay line"])
def test_a_dead_process_of_the_lab_is_named(make_lab: MakeLab, tmp_path: Path, what: str) -> None:
    sections = {"lab": {"switch": "lossless"}} if what == "soft switch" else {"link": {"delay": "1ms"}}
    lab = make_lab({"kind": "bcube", "n": 2, "levels": 1}, **sections)
    lab.provision()
    (process,) = (soft_switch if what == "soft switch" else delay_line).running(lab.name)
    code = f"import os, time, hipsnet; c = hipsnet.init(); os.kill({process.pid}, 9) if c.rank == 0 else 0; "
    program = tmp_path / "program.py"
    program.write_text(
        code.replace("; ", "\n").replace(" if c.rank == 0 else 0", " if c.rank == 0 else None")
    )
    program.write_text(program.read_text() + "while True: c.barrier()\n")
    done = hipsnet_process("run", lab.file, "--timeout", "2", "--warn", "1", "--", "python", program)
    assert done.returncode == 1
    sentence = f"hipsnet: {what} of {lab.name} is not running"
    (line,) = [line for line in ours(done) if line.startswith(sentence)]
    assert f"run `hipsnet provision {lab.file}`" in line
    # The next job is refused before it starts.
    done = lab.run("run", "--", "true")
    assert (done.returncode, done.stderr) == (1, line + "\n")
    assert lab.run("provision").returncode == 0
    assert lab.run("run", "--size", "1K", "-n", "1").returncode == 0
