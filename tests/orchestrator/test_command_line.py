# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: the table of commands is complete, and each imports only what it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import hipsnet
from orchestrator.command_line import MODULES, app

ROOT = Path(__file__).parents[2]


def test_every_command_of_every_module_is_in_the_table_and_in_the_help() -> None:
    modules = {file.stem for file in (ROOT / "orchestrator/commands").glob("*.py")}
    with_commands = {}
    for name in modules:
        module = import_module(f"orchestrator.commands.{name}")
        if isinstance(found := getattr(module, "app", None), typer.Typer):
            with_commands[name] = tuple(typer.main.get_group(found).commands)
    assert with_commands == MODULES
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f"│ {command} " in shown for commands in MODULES.values() for command in commands)


def test_the_version_is_that_of_the_package() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"hipsnet {hipsnet.__version__}\n")
    assert re.fullmatch(r"[0-9]+(\.[0-9]+)+", hipsnet.__version__)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "hipsnet/__init__.py"}


@pytest.mark.parametrize("words", [[], ["run"], ["init", "bcube"], ["pfc", "tune"], ["shell"]])
def test_h_prints_the_help(words: list[str]) -> None:
    done = CliRunner().invoke(app, [*words, "-h"])
    assert done.exit_code == 0
    assert done.stdout == CliRunner().invoke(app, [*words, "--help"]).stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hipsnet pro", ["provision"]),
        ("hipsnet i", ["init", "inspect", "impair"]),
        ("hipsnet exec sub", ["sub.yaml", "sub/"]),
        ("hipsnet inspect sub/", ["sub/inner.yml"]),
        ("hipsnet exec sub.yaml s1", ["s10", "s11"]),
        ("hipsnet exec sub.yaml l1", ["l1g0", "l1g1"]),
        ("hipsnet routes sub.yaml s00 s0", ["s00", "s01"]),
        ("hipsnet impair sub.yaml s01.", ["s01.p0", "s01.p1"]),
        ("hipsnet exec missing.yaml s", []),
        ("hipsnet exec broken.yaml s", []),
        ("hipsnet pfc e", ["explain", "events"]),
    ],
)
def test_completion_in_bash(
    line: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/inner.yml").touch()
    (tmp_path / "sub/inner.txt").touch()
    (tmp_path / "sub.yaml").write_text("version: 1\nname: demo\nfabric: {kind: bcube, n: 2, levels: 2}\n")
    (tmp_path / "broken.yaml").write_text("[")
    monkeypatch.chdir(tmp_path)
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_HIPSNET_COMPLETE": "complete_bash"}
    done = CliRunner().invoke(app, [], prog_name="hipsnet", env=variables)
    assert sorted(done.stdout.split()) == sorted(expected)


def test_bash_itself_completes(tmp_path: Path) -> None:
    """The script that --show-completion prints defines a function that bash calls."""
    environ = {
        **os.environ,
        "SHELL": "/bin/bash",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    script = (
        'eval "$(hipsnet --show-completion bash)"; COMP_WORDS=(hipsnet prov); COMP_CWORD=1; '
        '_hipsnet_completion hipsnet; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("provision\n", "")


def test_an_unknown_command_is_refused() -> None:
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
def test_a_command_imports_no_more_than_it_needs(arguments: list[str], spared: set[str]) -> None:
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


OPTIONAL = {"--node", "--output", "--rate", "--delay", "--loss"}
"""Options that have no default: without them nothing is selected, written or changed."""


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The words and the object of every command below a group."""
    for name in group.list_commands(typer.Context(group)):
        command = group.get_command(typer.Context(group), name)
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def test_the_help_shows_the_default_of_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    seen = 0
    for words, command in commands(typer.main.get_group(app)):
        lines = CliRunner().invoke(app, [*words, "--help"]).stdout.splitlines()
        for option in command.params:
            if option.param_type_name != "option" or option.is_flag or option.required:
                continue
            (line,) = (line for line in lines if re.search(rf" {option.opts[0]} ", line))
            if option.default is None and option.show_default is True:
                assert option.opts[0] in OPTIONAL, (words, line)
                continue
            shown = option.default if option.show_default is True else f"({option.show_default})"
            assert f"[default: {shown}]" in line, (words, line)
            seen += 1
    assert seen > 50
