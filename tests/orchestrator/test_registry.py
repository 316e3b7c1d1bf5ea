# SPDX-License-Identifier: Apache-2.0
"""The list of running jobs: complete, and without stale entries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.jobs import registry
from orchestrator.lab import state

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from orchestrator.jobs import registry
with registry.registered(sys.argv[1], "hipsnet run x.yaml -- sleep 'a b'", "root") as others:
    print([job.pid for job in others], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(state, "ROOT", tmp_path / "run")
    return "demo"


@pytest.fixture
def real_fabric() -> Iterator[str]:
    name = f"jg{uuid.uuid4().hex[:6]}"
    yield name
    state.remove(name)


def holder(fabric: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, fabric],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_a_job_is_listed_while_it_runs_and_sees_the_others(real_fabric: str) -> None:
    assert registry.running_jobs(real_fabric) == ()
    before = time.time()
    with holder(real_fabric) as first, holder(real_fabric) as second:
        assert first.stdout and second.stdout and first.stdin and second.stdin
        seen = [json.loads(process.stdout.readline()) for process in (first, second) if process.stdout]
        assert sorted(map(len, seen)) in ([0, 1], [1, 1])
        jobs = registry.running_jobs(real_fabric)
        assert {job.pid for job in jobs} == {first.pid, second.pid}
        assert {(job.command, job.user) for job in jobs} == {("hipsnet run x.yaml -- sleep 'a b'", "root")}
        assert all(before - 1 <= job.started_s <= time.time() for job in jobs)
        first.stdin.close()
        first.wait()
        assert [job.pid for job in registry.running_jobs(real_fabric)] == [second.pid]
        second.stdin.close()
    assert registry.running_jobs(real_fabric) == ()
    assert not state.folder(real_fabric).exists()


def test_a_killed_job_is_not_listed_and_removed_by_the_next(real_fabric: str) -> None:
    with holder(real_fabric) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert list(registry.folder(real_fabric).glob("*.json"))
    assert registry.running_jobs(real_fabric) == ()
    with registry.registered(real_fabric, "x", "root") as others:
        assert list(others) == []
        assert [path.name for path in registry.folder(real_fabric).iterdir()] == [f"{os.getpid()}.json"]
    assert not state.folder(real_fabric).exists()


def test_a_later_process_with_the_same_id_is_not_the_job(fabric: str) -> None:
    with registry.registered(fabric, "x", "root"):
        path = registry.folder(fabric) / f"{os.getpid()}.json"
        content = json.loads(path.read_text())
        assert [job.pid for job in registry.running_jobs(fabric)] == [os.getpid()]
        path.write_text(json.dumps(content | {"start_ticks": content["start_ticks"] - 1}))
        assert registry.running_jobs(fabric) == ()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": 1}', "\0", '"pid"'])
def test_a_torn_file_is_ignored(fabric: str, content: str) -> None:
    registry.folder(fabric).mkdir(parents=True)
    (registry.folder(fabric) / "1.json").write_text(content)
    assert registry.running_jobs(fabric) == ()
