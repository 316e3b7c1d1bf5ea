# SPDX-License-Identifier: Apache-2.0
"""A command killed at any point: the next run completes its work, or a destroy removes it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from tests.lab.rig import Lab, Traces, hipsnet, traces

MakeLab = Callable[..., Lab]

POINTS = 24
TORUS = {"kind": "torus", "dims": [3]}
BCUBE = {"kind": "bcube", "n": 2, "levels": 1}
_OURS = ("/hipsnet/node/", "/orchestrator/")


def killed_after(calls: int | None, *arguments: object) -> int:
    """Run the command in a child that kills itself at its call number `calls` of one of our functions.

    Every function of the packages node and lab counts, and every request to the kernel: a command killed
    "at a call" has done everything before that call and nothing after it. The number of calls differs a
    little from run to run (the kernel's replies have more or fewer parts), so the last point may not be
    reached. Returns the number of calls.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        counted = 0

        def count(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal counted
            if event == "call" and any(part in frame.f_code.co_filename for part in _OURS):
                counted += 1
                if counted == calls:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(count)
        try:
            hipsnet(*arguments)
        finally:
            sys.setprofile(None)
            os.write(writer, str(counted).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        counted_text = pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or int(counted_text) < (calls or sys.maxsize)
    return int(counted_text or 0)


def points(total: int) -> list[int]:
    """Kill points spread over a command, its first and its last steps among them."""
    return sorted({1 + (total - 1) * number // (POINTS - 1) for number in range(POINTS)})


def destroy_the_rest(lab: Lab, clean: Traces) -> None:
    """`destroy` removes everything the killed command left, and reports if nothing was left."""
    left = traces(lab.name)
    done = hipsnet("destroy", lab.name)
    if left.namespaces or left.pins or left.processes or any("record" in path for path in left.state):
        assert done.returncode == 0, done.stderr
    else:
        assert (done.returncode, "is not provisioned" in done.stderr) == (1, True), done.stderr
    assert traces(lab.name) == clean


def assert_whole(lab: Lab) -> None:
    """The next run completes the lab, and a further run changes nothing."""
    lab.provision()
    assert lab.provision() == []
    assert lab.inspect()["drift"] == 0
    pinged = lab.ping()
    assert pinged["reached"] == pinged["paths"]


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    return make_lab(BCUBE)


def test_a_killed_provision_is_completed_or_removed(lab: Lab) -> None:
    clean = traces(lab.name)
    total = killed_after(None, "provision", lab.file)
    hipsnet("destroy", lab.name)
    assert traces(lab.name) == clean
    for number, point in enumerate(points(total)):
        killed_after(point, "provision", lab.file)
        if number % 3 == 0:
            assert_whole(lab)
        destroy_the_rest(lab, clean)


def test_a_killed_change_is_completed(lab: Lab) -> None:
    """From BCube to a torus: nodes and cables are removed, added and changed."""
    clean = traces(lab.name)
    lab.provision()
    lab.edit(fabric=TORUS, link={"mtu": 1500})
    total = killed_after(None, "provision", lab.file)
    for point in points(total)[::3]:
        lab.edit(fabric=BCUBE, link={"mtu": 9000})
        lab.provision()
        lab.edit(fabric=TORUS, link={"mtu": 1500})
        killed_after(point, "provision", lab.file)
        assert_whole(lab)
    hipsnet("destroy", lab.name)
    assert traces(lab.name) == clean


def test_a_killed_destroy_is_completed(lab: Lab) -> None:
    clean = traces(lab.name)
    lab.provision()
    total = killed_after(None, "destroy", lab.name)
    for point in points(total)[::3]:
        lab.provision()
        killed_after(point, "destroy", lab.name)
        destroy_the_rest(lab, clean)
    lab.provision()
    killed_after(total // 2, "destroy", lab.name)
    assert_whole(lab)
