"""What `hipsnet top` costs: CPU time of its whole process, in real terminals, on a fabric of 64 servers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hipsnet.errors import CapabilityError, InputError, ProvisionError
from hipsnet.node.derive import facing
from hipsnet.topology import Fabric, Topology
from orchestrator import traffic
from orchestrator.traffic import Flow
from tools.benchmarks.lossless_lab import lossless_lab

app = typer.Typer()
FABRIC = "{kind: bcube, n: 8, levels: 2}"
WANTED = 0.02
_START_S = 30.0
_SETTLE_S = 5.0


@dataclass(frozen=True)
class Cost:
    """The share of a core that one `top` took for so many seconds, in user space and in the kernel."""

    terminal: str
    incast: bool
    seconds: float
    user: float
    system: float

    @property
    def core(self) -> float:
        """Both."""
        return self.user + self.system


@app.command()
def top(
    seconds: Annotated[float, typer.Option(min=1, help="Length of each measurement.")] = 60.0,
    sizes: Annotated[str, typer.Option(help="Terminals, as columns x lines.")] = "200x60,80x24",
    incast: Annotated[
        bool, typer.Option(help="Also while 14 servers send to one, on the same cores.")
    ] = False,
    rate: Annotated[str, typer.Option(help="Rate of every cable.")] = "20Mbit/s",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write results here; - for stdout.")
    ] = None,
) -> None:
    """`hipsnet top` at one look a second on a BCube(8,2) with lossless switches: what it takes of a core."""
    if shutil.which("tmux") is None:
        raise CapabilityError("tmux wanted, not found; run: apt install tmux")
    terminals = [_size(text) for text in sizes.split(",")]
    with lossless_lab(FABRIC, rate) as (topology, fabric, file):
        costs = [measure(file, size, seconds) for size in terminals]
        if incast:
            costs += [_beside_an_incast(topology, fabric, file, size, seconds) for size in terminals]
    Console(stderr=str(json_file) == "-").print(_table(costs))
    if json_file is not None:
        text = json.dumps({"benchmark": "top", "results": [asdict(cost) for cost in costs]}, indent=2) + "\n"
        typer.echo(text, nl=False) if str(json_file) == "-" else json_file.write_text(text)


def measure(file: Path, size: tuple[int, int], seconds: float, incast: bool = False) -> Cost:
    """One `top`, from some seconds after its start on."""
    with _terminal(["top", str(file)], size) as process:
        time.sleep(_SETTLE_S)
        before, begun = _cpu_s(process), time.monotonic()
        time.sleep(seconds)
        after, took = _cpu_s(process), time.monotonic() - begun
    user, system = ((last - first) / took for first, last in zip(before, after, strict=True))
    return Cost("x".join(map(str, size)), incast, took, user, system)


def _beside_an_incast(
    topology: Topology, fabric: Fabric, file: Path, size: tuple[int, int], seconds: float
) -> Cost:
    first = fabric.servers[0]
    flows = [Flow(source, target) for target in first.ports for source in facing(fabric, target)]
    sending = traffic.start(topology, fabric, flows, seconds + _START_S)
    try:
        return measure(file, size, seconds, incast=True)
    finally:
        sending.terminate()
        sending.communicate()


@contextmanager
def _terminal(arguments: Sequence[str], size: tuple[int, int]) -> Iterator[int]:
    """`hipsnet ARGUMENTS` in a tmux of its own: its process id, once there is something on its screen."""
    tmux = ["tmux", "-L", f"hipsnet-bench-{os.getpid()}", "-f", "/dev/null"]
    columns, lines = map(str, size)
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
    """Of all its threads: seconds in user space, and in the kernel."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    user, system = (int(fields[at]) / os.sysconf("SC_CLK_TCK") for at in (11, 12))
    return user, system


def _size(text: str) -> tuple[int, int]:
    columns, _, lines = text.partition("x")
    if not (columns.isdigit() and lines.isdigit()):
        raise InputError(f"--sizes: found {text!r}; wanted columns x lines, such as 80x24")
    return int(columns), int(lines)


def _table(costs: Sequence[Cost]) -> Table:
    view = Table(title="hipsnet top, BCube(8,2): 64 servers, 16 switches, one look a second")
    for column in ("terminal", "traffic", "s", "user", "kernel", "of a core", f"<= {WANTED:.0%}"):
        view.add_column(column, justify="right")
    for cost in costs:
        view.add_row(
            cost.terminal, "incast" if cost.incast else "none", f"{cost.seconds:.0f}", f"{cost.user:.2%}",
            f"{cost.system:.2%}", f"{cost.core:.2%}", "yes" if cost.core <= WANTED else "no",
        )  # fmt: skip
    return view
