# SPDX-License-Identifier: Apache-2.0
"""Packets per second across one node: XDP against the kernel's own forwarding, alternating on one path."""

from __future__ import annotations

import itertools
import operator
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table

from tools.benchmarks.three_nodes import BATCH, Line, Way, send, set_way, three_nodes, udp_frame
from tools.benchmarks.turns import JsonFile, Results, show, sizes_in, taken

app = typer.Typer()
WAYS: tuple[Way, ...] = ("xdp", "kernel")
WANTED_RATIO = 3.0
_SMALLEST, _LARGEST = 64, 3000  # a live frame of the test-run shares one page with the kernel's metadata
_FIRST_FRAMES = 1024 * BATCH


@dataclass(frozen=True)
class Sample:
    """One turn: frames sent and received in `seconds`."""

    way: Way
    size_bytes: int
    sent: int
    arrived: int
    seconds: float

    @property
    def pps(self) -> float:
        """Frames received per second."""
        return self.arrived / self.seconds


@app.command()
def forward(
    sizes: Annotated[str, typer.Option(help="Frame sizes in bytes, divided by commas.")] = "64,1414",
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each way; their median counts.")] = 25,
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of a turn, about.")] = 0.2,
    json_file: JsonFile = None,
) -> None:
    """Packets per second across one node: XDP against the kernel's ip_forward."""
    lengths = sizes_in(sizes, _SMALLEST, _LARGEST)
    with three_nodes() as line:
        turns = _turns(line, lengths, rounds, seconds)
        samples = taken("forward", len(lengths) * rounds * len(WAYS), turns)
    results = summarize(samples)
    show("forward", results, _table(results), json_file)


def summarize(samples: list[Sample]) -> Results:
    """By frame size: the median packets per second of both ways, and the shares that arrived.

    The ratio is the median too, of every round's: a disturbance of the machine slows both turns of a round.
    """
    results = []
    for size in dict.fromkeys(sample.size_bytes for sample in samples):
        result: dict[str, float] = {"size_bytes": size}
        pps = {}
        for way in WAYS:
            turns = [sample for sample in samples if (sample.way, sample.size_bytes) == (way, size)]
            pps[way] = [turn.pps for turn in turns]
            arrived, sent = sum(turn.arrived for turn in turns), sum(turn.sent for turn in turns)
            result[f"{way}_pps"] = statistics.median(pps[way])
            result[f"{way}_best_pps"] = max(pps[way])
            result[f"{way}_arrived"] = arrived / sent
        result["ratio"] = statistics.median(map(operator.truediv, pps["xdp"], pps["kernel"]))
        results.append(result)
    return results


def _turns(line: Line, sizes: list[int], rounds: int, seconds: float) -> Iterator[Sample]:
    frames = {}
    for way in WAYS:
        set_way(line, way)
        _, took = send(line, udp_frame(sizes[0]), _FIRST_FRAMES)
        frames[way] = max(1, int(_FIRST_FRAMES / BATCH * seconds / took)) * BATCH
    for _, size, way in itertools.product(range(rounds), sizes, WAYS):
        set_way(line, way)
        arrived, took = send(line, udp_frame(size), frames[way])
        yield Sample(way, size, frames[way], arrived, took)


def _table(results: Results) -> Table:
    table = Table(title="generator - router - sink, on one CPU; wants a quiet machine")
    columns = (
        "frame (B)",
        "XDP (Mpps)",
        "kernel (Mpps)",
        "ratio",
        f">= {WANTED_RATIO:g}",
        "XDP arrived",
        "kernel arrived",
    )
    for column in columns:
        table.add_column(column, justify="right")
    for result in results:
        table.add_row(
            f"{result['size_bytes']:.0f}",
            f"{result['xdp_pps'] / 1e6:.3f}",
            f"{result['kernel_pps'] / 1e6:.3f}",
            f"{result['ratio']:.2f}",
            "yes" if result["ratio"] >= WANTED_RATIO else "no",
            f"{result['xdp_arrived']:.2%}",
            f"{result['kernel_arrived']:.2%}",
        )
    return table
