# SPDX-License-Identifier: Apache-2.0
"""Fixtures and settings for all tests."""

from __future__ import annotations

import signal

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a run that is terminated take down what its fixtures built, as an interrupted one does."""

    def terminate(*_: object) -> None:
        session.shouldstop = "terminated"  # also if the test that is running suppresses the exception
        pytest.exit("terminated", 128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
