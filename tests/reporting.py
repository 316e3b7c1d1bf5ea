# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for a run elsewhere: tells, a JSON line each, what was collected and what came of it.

The lines go to the standard output that the process began with; what the tests print is in their reports.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

_channel = os.dup(1)


def _tell(**content: Any) -> None:
    os.write(_channel, json.dumps(content, default=str).encode() + b"\n")


class Reporting:
    """The hooks; they need the configuration."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            _tell(broken=f"{report.nodeid}: {report.longreprtext}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        _tell(collected=[item.nodeid for item in session.items])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _tell(started=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _tell(report=self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        _tell(finished=nodeid)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Reporting(config))
