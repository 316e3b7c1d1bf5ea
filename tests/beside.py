"""A pytest plugin: the tests of labs, which wait most of their time, run in a process beside all others.

For runs of the whole (`tools/test`). The process is started before the first test, and its reports stand here last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.elsewhere import Elsewhere, outputs_of, running

LABS = Path(__file__).parent / "lab"
_run = pytest.StashKey[Elsewhere]()


def pytest_runtestloop(session: pytest.Session) -> None:
    """Put the labs last, and start their process, if there are others."""
    chosen = [item for item in session.items if LABS in item.path.parents]
    if not 0 < len(chosen) < len(session.items) or session.config.option.collectonly or session.testsfailed:
        return
    session.items.sort(key=chosen.__contains__)
    for item in chosen:  # timed in there, and waited for
        item.add_marker(pytest.mark.timeout(0), append=False)
    nodeids = [item.nodeid for item in chosen]
    session.stash[_run] = Elsewhere(session.config, nodeids, outputs_of(running(nodeids)))
    session.stash[_run].begin()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Stand the process's reports in for running a test here."""
    if LABS not in item.path.parents or _run not in item.session.stash:
        return None
    item.session.stash[_run].stand_in(item, nextitem)
    return True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the process."""
    if _run in session.stash:
        session.stash[_run].close()
