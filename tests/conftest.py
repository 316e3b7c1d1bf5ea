# SPDX-License-Identifier: Apache-2.0
"""Fixtures and settings for all tests."""

from __future__ import annotations

import signal

import pytest


def pytest_configure() -> None:
    """Let a run that is terminated take down what its fixtures built, as an interrupted one does."""
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", 128 + signal.SIGTERM))
