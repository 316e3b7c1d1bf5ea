# SPDX-License-Identifier: Apache-2.0
"""All-reduce among nine servers: HiPS against Gloo, ring and mesh, alternating on one machine."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hipsnet.errors import HipsnetError
from hipsnet.units import approximate_size
from orchestrator import topology_file
from orchestrator.provision import provisioning, removal
from tools.benchmarks.allreduce_plan import (
    MIB,
    SHAPED,
    TWO_WAY,
    UNSHAPED,
    Contender,
    Part,
    Target,
    rounds_of,
    topology_text,
)

app = typer.Typer()
_HIPSNET = (sys.executable, "-c", "from orchestrator.cli import main; main()")


@dataclass(frozen=True)
class Measured:
    """Iteration times of a contender at one size, in seconds, over all turns; the physical limit if known."""

    part: str
    contender: str
    size_bytes: int
    times_s: tuple[float, ...]
    limit_s: float | None

    @property
    def median_s(self) -> float:
        return statistics.median(self.times_s)


@app.command()
def allreduce(
    unshaped: Annotated[bool, typer.Option("--unshaped", help="Also with links of unlimited rate.")] = False,
    torus: Annotated[bool, typer.Option("--torus", help="Also two-way rings on a torus 3x3.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only HiPS and Gloo, up to 16 MiB, one turn.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 3,
    json_file: Annotated[str | None, typer.Option("--json", help="Write results here; - for stdout.")] = None,
) -> None:
    """Times of an all-reduce of nine servers: HiPS, Gloo, ring and mesh, at 500 Mbit/s a port."""
    parts = [SHAPED, *([UNSHAPED] if unshaped else []), *([TWO_WAY] if torus else [])]
    console = Console(stderr=json_file == "-", width=150)
    found: list[Measured] = []
    for part in map(_shortened, parts) if quick else parts:
        found += _measure(part, 1 if quick else rounds)
        console.print(_table(part, found))
        console.print(_verdicts(part, found), "")
    if json_file:
        text = json.dumps([_entry(measured) for measured in found], indent=2)
        print(text) if json_file == "-" else Path(json_file).write_text(text + "\n")


def _shortened(part: Part) -> Part:
    sizes = tuple(size for size in part.sizes_bytes if size <= 16 * MIB) or part.sizes_bytes
    return Part(part.name, part.rate, part.contenders[:2], sizes, part.targets)


def _measure(part: Part, rounds: int) -> list[Measured]:
    """Alternate between the contenders, so that changes of the machine's load affect all of them."""
    times: dict[tuple[str, int], list[float]] = {}
    limits: dict[tuple[str, int], float | None] = {}
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        task = progress.add_task(f"{part.name}: building", total=rounds * len(part.contenders))
        fabrics = dict.fromkeys(contender.fabric for contender in part.contenders)
        files = {fabric: stack.enter_context(_lab(fabric, part.rate)) for fabric in fabrics}
        for _ in range(rounds):
            for contender in part.contenders:
                progress.update(task, description=f"{part.name}: {contender.name}")
                turn = _gloo if contender.algorithm is None else _ours
                for size, seconds, limit_s in turn(contender, files[contender.fabric], part.sizes_bytes):
                    times.setdefault((contender.name, size), []).extend(seconds)
                    limits[contender.name, size] = limit_s
                progress.advance(task)
    return [Measured(part.name, *key, tuple(seconds), limits[key]) for key, seconds in times.items()]


@contextmanager
def _lab(fabric: str, rate: str) -> Iterator[Path]:
    """Provision a lab, yield its topology file, and destroy the lab in any case."""
    with TemporaryDirectory(prefix="hipsnet-bench-") as folder:
        file = Path(folder) / "topology.yaml"
        file.write_text(topology_text(fabric, rate))
        topology, built = topology_file.load(file)
        try:
            provisioning.provision(topology, built, str(file), lambda _: lambda _: None)
            yield file
        finally:
            removal.destroy(built.name)


Turn = Iterator[tuple[int, list[float], float | None]]


def _ours(contender: Contender, file: Path, sizes: Sequence[int]) -> Turn:
    """One turn of our engine: one job for each count of iterations."""
    for (iterations, warmup), group in groupby(sizes, rounds_of):
        listed = ",".join(f"{size}B" for size in group)
        options = ("--iters", str(iterations), "--warmup", str(warmup), "--json", "-")
        out = _run("run", str(file), "--algorithm", str(contender.algorithm), "--sizes", listed, *options)
        for result in json.loads(out)["results"]:
            yield result["bytes"], result["times_s"], result["limit_s"]


def _gloo(contender: Contender, file: Path, sizes: Sequence[int]) -> Turn:
    """One turn of Gloo, over the only port of each server."""
    cases = json.dumps([(size, *rounds_of(size)) for size in sizes])
    out = _run("run", str(file), "--", sys.executable, "-m", "tools.benchmarks.gloo_worker", cases)
    for line in out.splitlines():
        result = json.loads(line.partition("] ")[2])
        yield result["bytes"], result["times_s"], None


def _run(*arguments: str) -> str:
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "p0"}
    done = subprocess.run([*_HIPSNET, *arguments], env=environ, capture_output=True, text=True)
    if done.returncode:
        raise HipsnetError(f"`hipsnet {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def _table(part: Part, found: Sequence[Measured]) -> Table:
    """Medians in milliseconds, and multiples of the physical limit where the engine reports it."""
    table = Table(title=f"{part.name}: {part.rate} a port, medians in ms (x limit)")
    table.add_column("size", justify="right")
    for contender in part.contenders:
        table.add_column(contender.name, justify="right")
    medians = _by_key(part, found)
    for size in part.sizes_bytes:
        table.add_row(
            approximate_size(size), *(_cell(medians[contender.name, size]) for contender in part.contenders)
        )
    return table


def _cell(measured: Measured) -> str:
    if not measured.limit_s:
        return f"{measured.median_s * 1e3:.2f}"
    ratio = measured.median_s / measured.limit_s
    return f"{measured.median_s * 1e3:.2f} ({ratio:.{3 if ratio < 10 else 0}f})"


def _verdicts(part: Part, found: Sequence[Measured]) -> Table:
    table = Table(title=f"{part.name}: required ratios")
    for column in ("size", "ratio", "required", "measured", ""):
        table.add_column(column)
    medians = _by_key(part, found)
    for target in part.targets:
        if (target.first, target.size_bytes) in medians:
            ratio = _ratio(target, medians)
            verdict = "[green]ok[/]" if ratio <= target.at_most else "[red]miss[/]"
            what = f"{target.first} / {target.second or 'limit'}"
            table.add_row(
                approximate_size(target.size_bytes), what, f"<= {target.at_most}", f"{ratio:.3f}", verdict
            )
    return table


def _ratio(target: Target, medians: dict[tuple[str, int], Measured]) -> float:
    first = medians[target.first, target.size_bytes]
    if target.second is not None:
        return first.median_s / medians[target.second, target.size_bytes].median_s
    assert first.limit_s is not None, "bounds on the limit are for ports with a rate"
    return first.median_s / first.limit_s


def _by_key(part: Part, found: Sequence[Measured]) -> dict[tuple[str, int], Measured]:
    return {(item.contender, item.size_bytes): item for item in found if item.part == part.name}


def _entry(measured: Measured) -> dict[str, Any]:
    return {
        "part": measured.part,
        "contender": measured.contender,
        "bytes": measured.size_bytes,
        "median_s": measured.median_s,
        "limit_s": measured.limit_s,
        "times_s": list(measured.times_s),
    }
