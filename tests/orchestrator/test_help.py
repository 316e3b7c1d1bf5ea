# SPDX-License-Identifier: Apache-2.0
"""`hipsnet help`: every topic is complete, and the help of a command is the same in both forms."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from hipsnet.settings import VARIABLES
from orchestrator.command_line import MODULES, app
from orchestrator.help import tables, topics
from tests.lab.rig import hipsnet


@pytest.mark.parametrize("topic", topics.names())
def test_a_topic_is_printed_in_full(topic: str) -> None:
    done = hipsnet("help", topic)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == topics.text(topic)
    assert done.stdout.startswith("# ") and "{{" not in done.stdout


def test_the_list_of_topics_is_the_files() -> None:
    listed = [line.split()[0] for line in hipsnet("help").stdout.split("\n\n")[0].splitlines()]
    assert listed == list(topics.names())
    assert set(listed) == {"topology-file", "units", "addresses", "environment", "transports", "exit-codes"}


def test_the_environment_names_every_variable() -> None:
    text = topics.text("environment")
    assert all(f"`{row.name}`" in text for row in VARIABLES)


def test_topics_name_only_commands_that_exist() -> None:
    commands = {command for commands in MODULES.values() for command in commands} | {"COMMAND"}
    for topic in topics.names():
        assert set(re.findall(r"hipsnet ([a-z]+)\b", topics.text(topic))) - {"did", "runs"} <= commands, topic


def test_exit_codes_are_those_of_the_errors() -> None:
    from hipsnet import errors

    codes = {
        str(found.exit_code)
        for found in vars(errors).values()
        if isinstance(found, type) and issubclass(found, errors.HipsnetError)
    }
    assert codes <= tables.EXIT_CODES.keys()


def test_the_help_of_a_command_is_its_help() -> None:
    by_topic = hipsnet("help", "provision").stdout
    direct = CliRunner().invoke(app, ["provision", "-h"]).stdout
    assert "--dry-run" in by_topic
    assert re.findall(r"--[a-z-]+", by_topic) == re.findall(r"--[a-z-]+", direct)


def test_what_is_no_topic_is_refused_with_the_nearest() -> None:
    done = hipsnet("help", "adresses")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean addresses" in done.stderr
