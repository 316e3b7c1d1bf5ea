# SPDX-License-Identifier: Apache-2.0
"""All commands as one: the table of them is whole, and a command imports what it needs and no more."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from orchestrator.command_line import ROOMS, app

ROOT = Path(__file__).parents[2]


def test_every_command_of_every_module_is_in_the_table_and_in_the_help() -> None:
    modules = {file.stem for file in (ROOT / "orchestrator/commands").glob("*.py")}
    with_commands = {}
    for name in modules:
        module = import_module(f"orchestrator.commands.{name}")
        if isinstance(found := getattr(module, "app", None), typer.Typer):
            with_commands[name] = tuple(typer.main.get_group(found).commands)
    assert with_commands == ROOMS
    told = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f"│ {command} " in told for commands in ROOMS.values() for command in commands)


def test_a_command_that_is_not_there_is_refused() -> None:
    done = CliRunner().invoke(app, ["provisoin"])
    assert done.exit_code == 2
    assert "Did you mean 'provision'?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "spared"),
    [
        (["schema"], {"numpy", "pyroute2", "matplotlib", "textual"}),
        (["schedule", "--help"], {"numpy", "pyroute2", "matplotlib", "textual"}),
        (["provision", "--help"], {"matplotlib", "textual", "prometheus_client", "torch"}),
    ],
)
def test_nobody_waits_for_what_others_need(arguments: list[str], spared: set[str]) -> None:
    code = (
        "import sys; from orchestrator.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = done.stdout.splitlines()[-1].split()
    assert "typer" in imported
    assert spared & set(imported) == set()
