"""Tests under `inside/` run in a virtual machine with the distribution's kernel, one for all of them.

Collected here, each remains a test of its own. The machine is started before the first test of the run, whichever
that is, and in it pytest runs all those that were selected, beside the tests out here; when their turn comes,
their reports stand here for the tests. A test of which no report comes out fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.elsewhere import Elsewhere
from tests.vm.machine_run import in_machine

INSIDE = Path(__file__).parent / "inside"
_IS_INSIDE = "HIPSNET_VM" in os.environ
_run = pytest.StashKey[Elsewhere]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test in the machine is waited for, and timed in there."""
    if _IS_INSIDE:
        return
    for item in items:
        if INSIDE in item.path.parents:
            item.add_marker(pytest.mark.timeout(0), append=False)


def pytest_runtestloop(session: pytest.Session) -> None:
    """Start the machine, if there are tests for it."""
    chosen = [item.nodeid for item in session.items if INSIDE in item.path.parents]
    if chosen and not (_IS_INSIDE or session.config.option.collectonly or session.testsfailed):
        session.stash[_run] = Elsewhere(session.config, chosen, in_machine(chosen))
        session.stash[_run].begin()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Stand the machine's reports in for running a test here."""
    if _IS_INSIDE or INSIDE not in item.path.parents:
        return None
    item.session.stash[_run].stand_in(item, nextitem)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the machine."""
    if _run in session.stash:
        session.stash[_run].close()
