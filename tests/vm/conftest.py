# SPDX-License-Identifier: Apache-2.0
"""Tests under `inside/` run in a virtual machine with the distribution's kernel, one machine for all of them.

The host collects them too, so each is a test of its own in the report. The machine starts before the first test of
the session and runs all selected tests of `inside/` with its own pytest, concurrently with the tests on the host.
Their reports replace the tests here; a test without a report fails.
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
