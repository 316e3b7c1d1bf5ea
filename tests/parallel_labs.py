# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the tests of labs, which wait most of their time, run in a process beside all others.

For runs of the whole (`tools/test`). The process is started before the first test, and its reports stand here last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.remote_pytest import outputs_of, run_remotely, running

LABS = Path(__file__).parent / "lab"


def pytest_runtestloop(session: pytest.Session) -> None:
    """Put the labs last, and start their process, if there are others."""
    labs = [item for item in session.items if LABS in item.path.parents]
    if len(labs) < len(session.items):
        session.items.sort(key=labs.__contains__)
        run_remotely(session, labs, lambda nodeids: outputs_of(running(nodeids)))
