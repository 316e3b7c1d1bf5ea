"""Tests under `inside/` run in a virtual machine with the distribution's kernel, one for all of them.

Collected here, each remains a test of its own: the first one boots the machine, in which pytest runs all those
that were selected; their reports come out as they are made, and stand here for the tests. A test of which no
report comes out fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from _pytest.runner import pytest_runtest_teardown as tear_down

from tests.vm.machine_run import MachineRun, in_machine

INSIDE = Path(__file__).parent / "inside"
_IS_INSIDE = "HIPSNET_VM" in os.environ
_run = pytest.StashKey[MachineRun]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test in the machine waits for the boot, and is timed in there."""
    if _IS_INSIDE:
        return
    for item in items:
        if INSIDE in item.path.parents:
            item.add_marker(pytest.mark.timeout(0), append=False)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Stand the machine's reports in for running a test here."""
    if _IS_INSIDE or INSIDE not in item.path.parents:
        return None
    session = item.session
    if _run not in session.stash:
        chosen = [other.nodeid for other in session.items if INSIDE in other.path.parents]
        session.stash[_run] = MachineRun(item.config, chosen, in_machine(chosen))
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in session.stash[_run].reports(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # Nothing of this test was set up here, but what was for the one before has to go now.
    tear_down(item, nextitem)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the machine."""
    if _run in session.stash:
        session.stash[_run].close()
