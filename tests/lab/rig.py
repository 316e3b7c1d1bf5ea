# SPDX-License-Identifier: Apache-2.0
"""Labs for the tests: a topology file, the commands on it, and the traces it leaves on the machine."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hipsnet.node import namespace, pins
from hipsnet.topology import Fabric, Topology
from orchestrator import topology_file
from orchestrator.cli import main
from orchestrator.lab import state
from orchestrator.provision import removal

REPOSITORY = Path(__file__).resolve().parents[2]

BCUBE_2_2 = {"kind": "bcube", "n": 2, "levels": 2}
BCUBE_3_2 = {"kind": "bcube", "n": 3, "levels": 2}


@dataclass(frozen=True)
class Done:
    """The exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


def hipsnet(*arguments: object) -> Done:
    """Run the command line in this process, without starting an interpreter."""
    output, errors = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        redirect_stdout(output),
        redirect_stderr(errors),
        patch("sys.argv", ["hipsnet", *map(str, arguments)]),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return Done(code if isinstance(code, int) else 0, output.getvalue(), errors.getvalue())


def hipsnet_process(*arguments: object) -> Done:
    """Run the command line in a separate process."""
    command = command_line(*arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=REPOSITORY, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def command_line(*arguments: object) -> list[str]:
    """Return the command for `hipsnet ARGUMENTS` without an installed script."""
    return [sys.executable, "-c", "from orchestrator.cli import main; main()", *map(str, arguments)]


@dataclass(frozen=True)
class Traces:
    """Traces that a fabric can leave on a machine."""

    namespaces: tuple[str, ...]
    links: tuple[str, ...]
    pins: tuple[str, ...]
    processes: tuple[int, ...]
    state: tuple[str, ...]


def traces(name: str) -> Traces:
    """List everything named after a fabric, and the links of the default namespace."""
    pinned = pins.ROOT / name
    remembered = state.folder(name)
    return Traces(
        namespaces=tuple(found for found in namespace.names() if found.startswith(f"{name}-")),
        links=tuple(sorted(name for _, name in socket.if_nameindex())),
        pins=tuple(sorted(str(path) for path in pinned.rglob("*"))) if pinned.exists() else (),
        processes=tuple(pid for pid, _ in removal.residents(name)),
        state=tuple(sorted(str(path) for path in remembered.rglob("*"))) if remembered.exists() else (),
    )


@dataclass
class Lab:
    """A topology file in a temporary folder, and commands on it."""

    name: str
    file: Path
    content: dict[str, Any]

    def edit(self, **sections: Any) -> None:
        """Rewrite the file with these sections replaced."""
        self.content |= sections
        self.file.write_text(json.dumps(self.content))  # JSON is valid YAML

    def run(self, command: str, *arguments: object) -> Done:
        """Run `hipsnet COMMAND FILE ARGUMENTS`."""
        return hipsnet(command, self.file, *arguments)

    def provision(self) -> list[dict[str, str]]:
        """Provision with --json and return the changes; any failure fails the test."""
        done = self.run("provision", "--json")
        assert done.returncode == 0, done.stderr
        changes: list[dict[str, str]] = json.loads(done.stdout)["changes"]
        return changes

    def inspect(self) -> dict[str, Any]:
        """The report of inspect --json."""
        done = self.run("inspect", "--json")
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def ping(self) -> dict[str, Any]:
        """The report of ping --json."""
        done = self.run("ping", "--json")
        assert done.stdout, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def load(self) -> tuple[Topology, Fabric]:
        """Load the file as the commands do."""
        return topology_file.load(self.file)

    def namespace(self, node: str) -> str:
        """The namespace of a node."""
        return f"{self.name}-{node}"

    def ip(self, node: str, *arguments: str) -> str:
        """Return the output of `ip ARGUMENTS` on a node."""
        return run("ip", "-n", self.namespace(node), *arguments)


def run(*command: str) -> str:
    """Run another program; the test fails if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
