# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the tests of labs, which mostly wait, run in a second process concurrently with the others.

For runs of the whole suite (`tools/test`). The process starts before the first test; its reports come last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.remote_pytest import pytest_command, read_outputs, run_remotely

LABS = Path(__file__).parent / "lab"


def pytest_runtestloop(session: pytest.Session) -> None:
    """Move the labs to the end and start their process, if other tests are selected as well."""
    labs = [item for item in session.items if LABS in item.path.parents]
    if len(labs) < len(session.items):
        session.items.sort(key=labs.__contains__)
        run_remotely(session, labs, lambda nodeids: read_outputs(pytest_command(nodeids)))
