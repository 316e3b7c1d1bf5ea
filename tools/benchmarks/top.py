# SPDX-License-Identifier: Apache-2.0
"""CPU time of `hipsnet top`, the whole process in real terminals, on a fabric of 64 servers."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hipsnet.errors import CapabilityError, InputError, ProvisionError
from hipsnet.node.derive import facing
from hipsnet.topology import Fabric, Topology
from orchestrator.pfc import traffic
from orchestrator.pfc.traffic import Flow
from tools.benchmarks.lossless_lab import lossless_lab

app = typer.Typer()
FABRIC = "{kind: bcube, n: 8, levels: 2}"
TARGET = 0.02
_START_S = 30.0
_SETTLE_S = 5.0
_numbers = itertools.count()


@dataclass(frozen=True)
class Cost:
    """The share of a core used by one `top` over a number of seconds, in user space and in the kernel."""

    terminal: str
    incast: bool
    seconds: float
    user: float
    system: float

    @property
    def core(self) -> float:
        """User space and kernel together."""
        return self.user + self.system


@app.command()
def top(
    seconds: Annotated[float, typer.Option(min=1, help="Length of each measurement.")] = 60.0,
    sizes: Annotated[str, typer.Option(help="Terminals, as columns x lines.")] = "200x60,80x24",
    incast: Annotated[
        bool, typer.Option(help="Also while its neighbours send to one server, on the same cores.")
    ] = False,
    section: Annotated[str, typer.Option("--fabric", help="The file's section.")] = FABRIC,
    rate: Annotated[str, typer.Option(help="Rate of every cable.")] = "20Mbit/s",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write results here; - for stdout.")
    ] = None,
) -> None:
    """CPU time of `hipsnet top`, polling once per second on a fabric with lossless switches."""
    if shutil.which("tmux") is None:
        raise CapabilityError("tmux is not installed; run: apt install tmux")
    terminals = [_size(text) for text in sizes.split(",")]
    costs = []
    with lossless_lab(section, rate) as (topology, fabric, file):
        for busy in (False, True) if incast else (False,):
            for size in terminals:
                sending = _incast(topology, fabric, seconds) if busy else nullcontext()
                with sending:
                    costs.append(measure(file, size, seconds, busy))
                typer.echo(f"{costs[-1].terminal}: {costs[-1].core:.2%}", err=True)
    Console(stderr=str(json_file) == "-").print(_table(section, costs))
    if json_file is not None:
        text = json.dumps({"benchmark": "top", "results": [asdict(cost) for cost in costs]}, indent=2) + "\n"
        typer.echo(text, nl=False) if str(json_file) == "-" else json_file.write_text(text)


def measure(file: Path, size: tuple[int, int], seconds: float, incast: bool = False) -> Cost:
    """Measure one `top`, beginning some seconds after its start."""
    with _terminal(["top", str(file)], size) as process:
        time.sleep(_SETTLE_S)
        before, begun = _cpu_s(process), time.monotonic()
        time.sleep(seconds)
        after, took = _cpu_s(process), time.monotonic() - begun
    user, system = ((last - first) / took for first, last in zip(before, after, strict=True))
    return Cost("x".join(map(str, size)), incast, took, user, system)


@contextmanager
def _incast(topology: Topology, fabric: Fabric, seconds: float) -> Iterator[None]:
    first = fabric.servers[0]
    flows = [Flow(source, target) for target in first.ports for source in facing(fabric, target)]
    sending = traffic.start(topology, fabric, flows, seconds + _START_S)
    try:
        yield
    finally:
        sending.terminate()
        sending.communicate()


@contextmanager
def _terminal(arguments: Sequence[str], size: tuple[int, int]) -> Iterator[int]:
    """Run `hipsnet ARGUMENTS` in a new tmux; yield its process id once the screen is not empty."""
    columns, lines = map(str, size)
    # A new tmux server each time: the previous one may still be shutting down.
    name = f"hipsnet-bench-{os.getpid()}-{next(_numbers)}"
    tmux = ["tmux", "-L", name, "-f", "/dev/null"]
    command = [sys.executable, "-c", "from orchestrator.cli import main; main()", *arguments]
    subprocess.run([*tmux, "new-session", "-d", "-x", columns, "-y", lines, *command], check=True)
    try:
        asked = [*tmux, "display-message", "-p", "#{pane_pid}"]
        process = int(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
        end = time.monotonic() + _START_S
        while "live" not in _screen(tmux):
            if time.monotonic() > end:
                raise ProvisionError(f"hipsnet top: nothing on its screen after {_START_S:g} s")
            time.sleep(0.2)
        yield process
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)


def _screen(tmux: Sequence[str]) -> str:
    done = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False)
    return done.stdout


def _cpu_s(process: int) -> tuple[float, float]:
    """CPU seconds of all threads of a process, in user space and in the kernel."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    user, system = (int(fields[at]) / os.sysconf("SC_CLK_TCK") for at in (11, 12))
    return user, system


def _size(text: str) -> tuple[int, int]:
    columns, _, lines = text.partition("x")
    if not (columns.isdigit() and lines.isdigit()):
        raise InputError(f"--sizes: {text!r} is not columns x lines, such as 80x24")
    return int(columns), int(lines)


def _table(section: str, costs: Sequence[Cost]) -> Table:
    view = Table(title=f"hipsnet top, one look a second\n{section}")
    for column in ("terminal", "traffic", "s", "user", "kernel", "of a core", f"<= {TARGET:.0%}"):
        view.add_column(column, justify="right")
    for cost in costs:
        view.add_row(
            cost.terminal, "incast" if cost.incast else "none", f"{cost.seconds:.0f}", f"{cost.user:.2%}",
            f"{cost.system:.2%}", f"{cost.core:.2%}", "yes" if cost.core <= TARGET else "no",
        )  # fmt: skip
    return view
