# SPDX-License-Identifier: Apache-2.0
"""Malformed files, full disks, missing rights, Ctrl-C: every command ends with one message."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hipsnet.node import namespace
from hipsnet.topology import explain
from orchestrator import topology_file
from tests.lab.rig import REPOSITORY, Done, command_line, hipsnet

NOTHING_BUT_LETTERS = "x" * 30_000
DIGITS = "1" * 5000
NAME = f"hu{uuid.uuid4().hex[:6]}"

# Below a /run of its own: where others remove the folder, what is mounted on it here would go as well.
OWN_STATE_FOLDER = "mount -t tmpfs none /run && mkdir /run/hipsnet && mount none /run/hipsnet -t tmpfs"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A topology file of a missing fabric."""
    path = tmp_path / "topology.yaml"
    path.write_text(f"version: 1\nname: {NAME}\nfabric: {{kind: bcube, n: 2, levels: 2}}\n")
    yield path
    if any(name.startswith(NAME) for name in namespace.names()):  # a test has failed
        hipsnet("destroy", NAME)


def answered(done: Done, code: int, words: str) -> None:
    assert done.returncode == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr) < 1500


def in_shell(script: str, *arguments: object) -> Done:
    """Run `script` in a new mount namespace; in it "$@" is the command line."""
    command = ["unshare", "-m", "bash", "-c", script, "bash", *command_line(*arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=REPOSITORY, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "text",
    [NOTHING_BUT_LETTERS, f"{NOTHING_BUT_LETTERS}: 1", "a: " * 9_000, "[" * 30_000, "- " * 15_000],
    ids=["letters", "a key", "colons", "brackets", "lists"],
)
def test_a_malformed_file_is_a_short_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    answered(hipsnet("provision", path), 2, "topology.yaml:1: ")
    answered(hipsnet("destroy", path), 2, "is neither the name of a fabric nor")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("impair", "s00.p0", "--loss", "nan%"), "--loss: found 'nan%'"),
        (("impair", "s00.p0", "--loss", "inf%"), "--loss: found 'inf%'"),
        (("impair", "s00.p0", "--rate", ""), "or unlimited"),
        (("exec", "s00", "--", ""), "COMMAND: found '', which is no program"),
        (("run", "--size", "1000TiB"), "4 servers need"),
        (("run", "--algorithm", "ps", "--servers", "5"), "servers: found 5; allowed: 1 to 4"),
        (("run", "--exchange", "ring,ring,ring"), "exchange: found 3 names"),
    ],
)
def test_wrong_arguments_are_named(file: Path, arguments: tuple[str, ...], words: str) -> None:
    command, *rest = arguments
    answered(hipsnet(command, file, *rest), 2, words)


def test_a_plan_is_one_line_for_each_node_in_a_pipe(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    plan = hipsnet("provision", file, "--dry-run").stdout
    lines = [line for line in plan.splitlines() if line.startswith("+ s00: namespace")]
    assert len(lines) == 1 and lines[0].endswith(" routes")


@pytest.mark.parametrize("arguments", [("schema",), ("init", "bcube", "--ports", "3", "--levels", "2")])
def test_a_full_disk_behind_standard_output_is_reported(arguments: tuple[str, ...]) -> None:
    answered(in_shell('"$@" > /dev/full', *arguments), 1, "hipsnet: /dev/full: No space left on device")


@pytest.mark.parametrize("ending", [".svg", ".pdf", ".png", ".dot"])
def test_a_picture_on_a_full_disk_is_an_error_that_names_it(file: Path, tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"full{ending}"
    picture.symlink_to("/dev/full")
    answered(hipsnet("graph", file, "-o", picture), 1, f"hipsnet: {picture}: No space left on device")


@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", "FILE", "--json"),
        ("schedule", "FILE"),
        ("provision", "FILE", "--dry-run"),
        ("provision", "FILE", "--dry-run", "--json"),
        ("routes", "FILE", "s00", "s11"),
        ("schema",),
        ("list",),
        ("list", "--json"),
        ("doctor",),
        ("help",),
        ("run", "--help"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_a_closed_pipe_prints_no_message(file: Path, arguments: tuple[str, ...]) -> None:
    command = command_line(*(file if word == "FILE" else word for word in arguments))
    reading, writing = os.pipe()
    os.close(reading)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, timeout=100, cwd=REPOSITORY, env=environ
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")  # as if killed by SIGPIPE


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("exporter", "FILE", "--port", "70000"), "--port"),
        (("run", "FILE", "--port", "65535"), "--port"),
        (("run", "FILE", "--iters", DIGITS), "--iters"),
        (("init", "bcube", "--ports", DIGITS, "--levels", "2"), "--ports"),
        (("init", "torus", "--dims", DIGITS), "--dims"),
        (("pfc", "tune", "FILE", "--seconds", DIGITS), "--seconds"),
    ],
)
def test_numbers_out_of_range_are_refused(file: Path, arguments: tuple[str, ...], option: str) -> None:
    answered(hipsnet(*(file if word == "FILE" else word for word in arguments)), 2, option)


@pytest.mark.parametrize(
    "arguments",
    [
        ("ping", "FILE"),
        ("exec", "FILE", "s00", "--", "true"),
        ("shell", "FILE", "s00"),
        ("impair", "FILE", "s00.p0", "--down"),
        ("top", "FILE", "--once"),
        ("exporter", "FILE", "--port", "0"),
        ("pfc", "events", "FILE"),
        ("run", "FILE", "--size", "1KiB"),
        ("endpoints", "FILE", "s00"),
        ("inspect", "FILE"),
        ("destroy", "FILE"),
    ],
    ids=lambda words: words[0],
)
def test_a_fabric_that_is_not_provisioned_is_exit_code_1(file: Path, arguments: tuple[str, ...]) -> None:
    done = hipsnet(*(file if word == "FILE" else word for word in arguments))
    answered(done, 1, f"hipsnet: {NAME} is not provisioned")
    assert "`hipsnet provision " in done.stderr


@pytest.mark.parametrize("command", ["provision", "destroy"])
def test_a_state_folder_that_cannot_be_written_is_reported(file: Path, command: str) -> None:
    script = f'{OWN_STATE_FOLDER} -o ro && "$@"'
    answered(in_shell(script, command, file), 1, f"cannot lock {NAME}: /run/hipsnet/{NAME}")
    assert not any(name.startswith(NAME) for name in namespace.names())


def test_a_full_state_folder_is_reported_and_nothing_remains(file: Path) -> None:
    full = f"{OWN_STATE_FOLDER} -o size=4k; head -c 4096 /dev/zero > /run/hipsnet/full"
    done = in_shell(f'{full}; "$@"; echo "$?"; ls -A /run/hipsnet', "provision", file)
    assert "record.json: No space left on device" in done.stderr and "Traceback" not in done.stderr
    assert done.stdout.split() == ["1", "full"]
    assert not any(name.startswith(NAME) for name in namespace.names())


def test_missing_root_is_reported_before_anything_is_compiled(file: Path) -> None:
    script = (
        "mount -t tmpfs none /run -o mode=755 && mount -t tmpfs none /mnt && cp $0 /mnt/topology.yaml && "
        'setpriv --reuid=65534 --regid=65534 --clear-groups "$@" /mnt/topology.yaml'
    )
    command = ["unshare", "-m", "bash", "-c", script, str(file), *command_line("provision")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=REPOSITORY, check=False)
    answered(Done(done.returncode, done.stdout, done.stderr), 1, "run as root")


@pytest.mark.parametrize(
    ("number", "usual"),
    [
        (signal.SIGINT, signal.default_int_handler),  # a job in the background ignores it
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ],
)
def test_an_interrupted_provision_reports_what_exists_and_how_to_continue(
    number: signal.Signals, usual: Callable[..., Any], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(name: str, mark: str) -> None:
        if name.endswith("s01"):
            signal.raise_signal(number)
        create(name, mark)

    create = namespace.create
    monkeypatch.setattr(namespace, "create", interrupted)
    before = signal.signal(number, usual)
    try:
        done = hipsnet("provision", file)
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)
    nodes = len(topology_file.load(file)[1].nodes)
    answered(done, 128 + number, f"{NAME}: interrupted, 1 of its {nodes} nodes exist")
    assert f"`hipsnet provision {file}` completes it" in done.stderr
    assert f"`hipsnet destroy {NAME}` removes it" in done.stderr
    assert "1 nodes removed" in hipsnet("destroy", NAME).stdout
    assert not any(name.startswith(NAME) for name in namespace.names())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "hipsnet: No space left on device\n"),
        (PermissionError(errno.EACCES, "Permission denied", "/x/y"), "hipsnet: /x/y: Permission denied\n"),
        (OSError(errno.EBADF, "Bad file descriptor"), None),
        (PermissionError(errno.EPERM, "Operation not permitted"), None),
        (OSError("without a number"), None),
    ],
)
def test_what_the_machine_refuses_is_one_line_and_a_bug_keeps_its_traceback(
    error: OSError, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(explain, "json_schema", fail)
    if expected is None:
        with pytest.raises(OSError) as raised:
            hipsnet("schema")
        assert raised.value is error
    else:
        done = hipsnet("schema")
        assert (done.returncode, done.stderr) == (1, expected)


def test_an_interrupt_while_the_command_starts_is_no_traceback(file: Path) -> None:
    """The signal arrives while the commands are imported."""
    code = (
        "import os, signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'orchestrator.commands.lab':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from orchestrator.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "inspect", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=REPOSITORY, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
