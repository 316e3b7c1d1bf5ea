# SPDX-License-Identifier: Apache-2.0
"""`hipsnet export`: files of every format, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from hipsnet.errors import InputError
from orchestrator.command_line import app
from tests.predict.msccl_machine import Machine


@pytest.fixture
def bcube(tmp_path: Path) -> Path:
    file = tmp_path / "bcube.yaml"
    file.write_text("version: 1\nname: demo\nfabric: {kind: bcube, n: 3, levels: 2}\n")
    return file


def export(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_msccl(bcube: Path, tmp_path: Path) -> None:
    printed = export(bcube, "--format", "msccl", "--size", "72KB")
    assert printed.exit_code == 0
    assert (Machine(printed.stdout).run(1) == 1).all()
    assert export(bcube, "--format", "msccl", "-o", tmp_path / "hips.xml").exit_code == 0
    assert (tmp_path / "hips.xml").read_text() == printed.stdout


def test_chakra(bcube: Path, tmp_path: Path) -> None:
    assert export(bcube, "--format", "chakra", "--size", "1MiB", "-o", tmp_path / "hips").exit_code == 0
    assert sorted(file.name for file in tmp_path.glob("*.et")) == [f"hips.{rank}.et" for rank in range(9)]


def test_astra(bcube: Path) -> None:
    done = export(bcube, "--format", "astra", "--latency", "1us")
    assert done.stdout.splitlines()[1:3] == ["topology: [ Switch, Switch ]", "npus_count: [ 3, 3 ]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "pdf"], "--format: found 'pdf'; allowed: msccl, chakra, astra"),
        (["--format", "msccl", "--size", "1MiB"], "18 chunks do not divide; .* the nearest size is 1048536B"),
        (["--format", "chakra", "--size", "1MiB"], "chakra: needs --size, and -o PREFIX"),
        (["--format", "msccl", "--exchange", "full"], "exchange full cannot be exported"),
        (["--format", "astra", "-o", "no/such/folder/file"], "no/such/folder/file: cannot be written"),
    ],
)
def test_what_is_refused(bcube: Path, arguments: list[str], message: str) -> None:
    done = export(bcube, *arguments)
    assert isinstance(done.exception, InputError)
    with pytest.raises(InputError, match=message):
        raise done.exception
