# SPDX-License-Identifier: Apache-2.0
"""Tests under `inside/` run in a virtual machine with the distribution's kernel, one for all of them.

Collected here, each remains a test of its own. The machine is started before the first test of the run, whichever
that is, and in it pytest runs all those that were selected, beside the tests out here; when their turn comes,
their reports stand here for the tests. A test of which no report comes out fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.remote_pytest import run_remotely
from tests.vm.machine_run import in_machine

INSIDE = Path(__file__).parent / "inside"


def pytest_runtestloop(session: pytest.Session) -> None:
    """Start the machine, if there are tests for it, and this is not it."""
    if "HIPSNET_VM" not in os.environ:
        run_remotely(session, [item for item in session.items if INSIDE in item.path.parents], in_machine)
