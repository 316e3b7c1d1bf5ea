# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for remote runs: writes one JSON message per line about what is collected, started and reported.

The lines go to the standard output of the process; what the tests print is captured and part of their reports.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

_output = os.dup(1)


def _send(**message: Any) -> None:
    os.write(_output, json.dumps(message, default=str).encode() + b"\n")


class Reporting:
    """The hooks, with the configuration that serializes reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            _send(broken=f"{report.nodeid}: {report.longreprtext}")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        _send(collected=[item.nodeid for item in session.items])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _send(started=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        _send(report=self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        _send(finished=nodeid)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Reporting(config))
