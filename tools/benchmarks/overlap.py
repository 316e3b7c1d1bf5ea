# SPDX-License-Identifier: Apache-2.0
"""A collective while the program computes: two servers, the first of which runs pure Python meanwhile."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hipsnet.errors import HipsnetError
from hipsnet.units import approximate_size, parse_size
from orchestrator import topology_file
from orchestrator.provision import provisioning, removal

app = typer.Typer()
AT_MOST = 1.05
_HIPSNET = (sys.executable, "-c", "from orchestrator.cli import main; main()")


@dataclass(frozen=True)
class Times:
    """The times of the computing rank in seconds, iteration by iteration: it waits, or it computes."""

    idle_s: Sequence[float]
    computing_s: Sequence[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.computing_s) / statistics.median(self.idle_s)


@app.command()
def overlap(
    size: Annotated[str, typer.Option(help="Size of the vector.")] = "64MiB",
    rate: Annotated[str, typer.Option(help="Rate of the ports.")] = "500mbit",
    rounds: Annotated[int, typer.Option(min=1, help="Iterations of each kind, in turn.")] = 5,
    json_file: Annotated[str | None, typer.Option("--json", help="Write results here; - for stdout.")] = None,
) -> None:
    """Time of an all-reduce between two servers while one of them runs pure Python, against waiting for it.

    Pure Python holds the interpreter's lock. On a machine with two cores, a core is free for the network.
    """
    times = measure(parse_size(size), rate, rounds)
    if json_file:
        text = json.dumps({"bytes": parse_size(size), "rate": rate, "ratio": times.ratio, **asdict(times)})
        print(text) if json_file == "-" else Path(json_file).write_text(text + "\n")
    Console(stderr=json_file == "-", width=120).print(_table(parse_size(size), times))


def measure(size_bytes: int, rate: str, rounds: int) -> Times:
    """Provision two servers, run the job there, and destroy them."""
    with TemporaryDirectory(prefix="hipsnet-bench-") as folder:
        file = Path(folder) / "topology.yaml"
        file.write_text(
            "version: 1\nname: bench-overlap\nfabric: {kind: torus, dims: [2]}\n"
            f"link: {{rate: {rate}, mtu: 9000}}\n"
        )
        topology, built = topology_file.load(file)
        try:
            provisioning.provision(topology, built, str(file), lambda _: lambda _: None)
            worker = (sys.executable, "-m", "tools.benchmarks.overlap_worker", str(size_bytes), str(rounds))
            done = subprocess.run(
                [*_HIPSNET, "run", str(file), "--", *worker], capture_output=True, text=True, check=False
            )
        finally:
            removal.destroy(built.name)
    if done.returncode:
        raise HipsnetError(f"the job failed: {done.stderr.strip()}")
    return Times(**json.loads(done.stdout.partition("] ")[2]))


def _table(size_bytes: int, times: Times) -> Table:
    table = Table(title=f"all-reduce of {approximate_size(size_bytes)}, two servers: medians in ms")
    for column in ("the program", "ms", "ratio", "required"):
        table.add_column(column, justify="right")
    table.add_row("waits", f"{statistics.median(times.idle_s) * 1e3:.1f}", "", "")
    colour = "green" if times.ratio <= AT_MOST else "red"
    table.add_row(
        "computes",
        f"{statistics.median(times.computing_s) * 1e3:.1f}",
        f"[{colour}]{times.ratio:.3f}[/]",
        f"<= {AT_MOST}",
    )
    return table
