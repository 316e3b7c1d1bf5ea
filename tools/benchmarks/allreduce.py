# SPDX-License-Identifier: Apache-2.0
"""All-reduce on one machine: hipsnet against Gloo, Open MPI, ring and mesh, in turns."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hipsnet.errors import InputError
from hipsnet.node.derive import facing
from hipsnet.topology import Fabric
from hipsnet.units import approximate_size
from tools.benchmarks import allreduce_picture
from tools.benchmarks.allreduce_plan import MIB, NEIGHBOUR_BYTES, PARTS, Bound, Contender, Part
from tools.benchmarks.allreduce_turns import Turn, provisioned, take

app = typer.Typer()


@dataclass
class Measured:
    """All turns of a contender at one size. `lost`: frames that soft switches dropped, None without them."""

    part: str
    contender: str
    size_bytes: int
    ranks: int
    neighbours: int
    turns: list[Turn] = field(default_factory=list)
    lost: int | None = None

    @property
    def times_s(self) -> list[float]:
        """The slowest rank's time in each iteration of all turns."""
        return [time for turn in self.turns for time in turn.times_s]

    @property
    def median_s(self) -> float:
        return statistics.median(self.times_s)

    @property
    def limit_s(self) -> float | None:
        """The physical limit, None without a rate or for another program."""
        return self.turns[0].limit_s

    @property
    def cpu_s(self) -> float | None:
        """Processor time of all ranks for one all-reduce, the median over the turns."""
        found = [turn.cpu_s for turn in self.turns if turn.cpu_s is not None]
        return statistics.median(found) if found else None

    @property
    def memory_bytes(self) -> int | None:
        """Memory of a rank beyond its arrays."""
        return max((turn.memory_bytes for turn in self.turns if turn.memory_bytes is not None), default=None)


Found = dict[tuple[str, str, int], Measured]
"""By part, contender and size."""


@app.command()
def allreduce(
    parts: Annotated[str, typer.Option(help=f"What to measure, with commas: {', '.join(PARTS)}.")] = "500",
    quick: Annotated[
        bool, typer.Option("--quick", help="Only three contenders, up to 16 MiB, one turn.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 3,
    picture: Annotated[
        Path | None, typer.Option(help="Draw time over size of the part 500: .svg or .png.")
    ] = None,
    json_file: Annotated[str | None, typer.Option("--json", help="Write results here; - for stdout.")] = None,
) -> None:
    """Times of an all-reduce: hipsnet, Gloo, Open MPI, ring and mesh, medians of the slowest rank."""
    chosen = [_shortened(part) if quick else part for part in _parts(parts)]
    console = Console(stderr=json_file == "-", width=170)
    found: Found = {}
    for part in chosen:
        _measure(part, 1 if quick else rounds, found)
        console.print(_times(part, found))
        console.print(_costs(part, found))
        console.print(_verdicts(part, found), "")
    if picture is not None:
        for part in (part for part in chosen if part.picture):
            allreduce_picture.draw(part, _curves(part, found), _limits(part, found), picture)
    if json_file:
        text = json.dumps([_entry(measured) for measured in found.values()], indent=2)
        print(text) if json_file == "-" else Path(json_file).write_text(text + "\n")


def _parts(text: str) -> list[Part]:
    names = list(PARTS) if text == "all" else text.split(",")
    for name in names:
        if name not in PARTS:
            raise InputError(f"--parts: found {name!r}; allowed: all, or of {', '.join(PARTS)}")
    return [PARTS[name] for name in names]


def _shortened(part: Part) -> Part:
    sizes = tuple(size for size in part.sizes_bytes if size <= 16 * MIB) or part.sizes_bytes
    return replace(part, contenders=part.contenders[:3], sizes_bytes=sizes)


def _measure(part: Part, rounds: int, found: Found) -> None:
    """Alternate between the contenders, so that changes of the machine's load affect all of them."""
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        task = progress.add_task(f"{part.name}: building", total=rounds * len(part.contenders))
        fabrics = dict.fromkeys(contender.fabric for contender in part.contenders)
        labs = {
            fabric: stack.enter_context(provisioned(fabric, part.rate, part.lossless)) for fabric in fabrics
        }
        for _ in range(rounds):
            for contender in part.contenders:
                progress.update(task, description=f"{part.name}: {contender.name}")
                lab = labs[contender.fabric]
                for turn in take(contender, lab, part.sizes_bytes):
                    key = part.name, contender.name, turn.size_bytes
                    measured = found.setdefault(
                        key, Measured(*key, len(lab.fabric.servers), neighbours(lab.fabric))
                    )
                    measured.turns.append(turn)
                    measured.lost = lab.lost if part.lossless else None
                progress.advance(task)


def neighbours(fabric: Fabric) -> int:
    """The number of neighbours of a server."""
    return sum(len(facing(fabric, port)) for port in fabric.servers[0].ports)


def _times(part: Part, found: Found) -> Table:
    """Medians in milliseconds, and multiples of the physical limit where it is known."""
    table = Table(title=f"{part.name}: {part.rate} a port, medians in ms (x limit)")
    table.add_column("size", justify="right")
    for contender in part.contenders:
        table.add_column(contender.name, justify="right")
    for size in part.sizes_bytes:
        cells = (_cell(found[part.name, contender.name, size]) for contender in part.contenders)
        table.add_row(approximate_size(size), *cells)
    return table


def _cell(measured: Measured) -> str:
    algorithm = measured.turns[0].algorithm
    chosen = f" {algorithm}" if algorithm else ""
    if not measured.limit_s:
        return f"{measured.median_s * 1e3:.2f}{chosen}"
    ratio = measured.median_s / measured.limit_s
    return f"{measured.median_s * 1e3:.2f} ({ratio:.{3 if ratio < 10 else 0}f}){chosen}"


def _costs(part: Part, found: Found) -> Table:
    """Processor time per byte of the vector and rank, memory per neighbour, and losses, at the largest size."""
    table = Table(title=f"{part.name}: costs at the largest size")
    columns = ("contender", "CPU time, ns per byte and rank", "MiB per neighbour beyond the arrays", "lost")
    for column in columns:
        table.add_column(column)
    for contender in part.contenders:
        measured = found[part.name, contender.name, part.sizes_bytes[-1]]
        if measured.cpu_s is None or measured.memory_bytes is None:
            continue
        per_byte = measured.cpu_s * 1e9 / measured.size_bytes / measured.ranks
        mib = measured.memory_bytes / measured.neighbours / MIB
        verdict = "" if mib * MIB <= NEIGHBOUR_BYTES else " [red]miss[/]"
        lost = "-" if measured.lost is None else str(measured.lost)
        table.add_row(contender.name, f"{per_byte:.2f}", f"{mib:.1f}{verdict}", lost)
    return table


def _verdicts(part: Part, found: Found) -> Table:
    table = Table(title=f"{part.name}: bounds")
    for column in ("size", "bound", "required", "measured", ""):
        table.add_column(column)
    for bound in part.bounds:
        if (part.name, bound.first, bound.size_bytes) in found:
            value = _value(part, bound, found)
            verdict = "[green]ok[/]" if value <= bound.at_most else "[red]miss[/]"
            what = bound.first if bound.second == "s" else f"{bound.first} / {bound.second or 'limit'}"
            unit = " s" if bound.second == "s" else ""
            row = (what, f"<= {bound.at_most}{unit}", f"{value:.3f}{unit}", verdict)
            table.add_row(approximate_size(bound.size_bytes), *row)
    return table


def _value(part: Part, bound: Bound, found: Found) -> float:
    first = found[part.name, bound.first, bound.size_bytes]
    if bound.second == "s":
        return first.median_s
    if bound.second is not None:
        return first.median_s / found[part.name, bound.second, bound.size_bytes].median_s
    assert first.limit_s is not None, "bounds on the limit are for ports with a rate"
    return first.median_s / first.limit_s


def _curves(part: Part, found: Found) -> dict[str, list[tuple[int, float]]]:
    def curve(contender: Contender) -> list[tuple[int, float]]:
        return [(size, found[part.name, contender.name, size].median_s) for size in part.sizes_bytes]

    return {contender.name: curve(contender) for contender in part.contenders}


def _limits(part: Part, found: Found) -> Sequence[tuple[int, float]]:
    """The physical limit of the first contender's fabric."""
    name = part.contenders[0].name
    of_sizes = ((size, found[part.name, name, size].limit_s) for size in part.sizes_bytes)
    return [(size, limit_s) for size, limit_s in of_sizes if limit_s]


def _entry(measured: Measured) -> dict[str, Any]:
    return {
        "part": measured.part,
        "contender": measured.contender,
        "bytes": measured.size_bytes,
        "algorithm": measured.turns[0].algorithm,
        "median_s": measured.median_s,
        "limit_s": measured.limit_s,
        "times_s": measured.times_s,
        "cpu_s": measured.cpu_s,
        "memory_bytes": measured.memory_bytes,
        "ranks": measured.ranks,
        "neighbours": measured.neighbours,
        "lost": measured.lost,
    }
