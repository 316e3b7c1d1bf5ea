# SPDX-License-Identifier: Apache-2.0
"""Bandwidth and CPU time of the verbs wire, perftest's ib_write_bw and the TCP wire, in one virtual machine."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table

from hipsnet.engine.wire.verbs_library import library
from hipsnet.errors import HipsnetError, InputError
from tools.benchmarks.turns import JsonFile, Results, show, sizes_in, taken
from tools.benchmarks.verbs_turns import WAYS
from tools.virtual_machine.machine import Machine, Order

app = typer.Typer()
WANTED_RATIO, FROM_BYTES = 0.9, 1 << 20
_SMALLEST, _LARGEST = 4, 1 << 26
_TURN_S = 30.0


@dataclass(frozen=True)
class Sample:
    """One turn."""

    way: str
    size_bytes: int
    bytes_per_s: float
    cpu_s: float  # of the sending process, for each write; 0: not measured


@app.command()
def verbs(
    sizes: Annotated[str, typer.Option(help="Message sizes in bytes, divided by commas.")] = (
        "64,4096,65536,1048576,4194304"
    ),
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each way; their median counts.")] = 3,
    json_file: JsonFile = None,
) -> None:
    """RDMA bandwidth of one connection against ib_write_bw and TCP, over rdma_rxe, and CPU time of each write."""
    lengths = sizes_in(sizes, _SMALLEST, _LARGEST)
    if odd := [size for size in lengths if size % _SMALLEST]:
        raise InputError(f"--sizes: found {odd[0]}; allowed: multiples of {_SMALLEST}")
    library()  # compiled here, not on the machine's emulated processor
    turns = len(lengths) * rounds * len(WAYS)
    results = summarize(taken("verbs", turns, _measure(lengths, rounds, turns)))
    show("verbs", results, _tables(results), json_file)


def summarize(samples: list[Sample]) -> Results:
    """By message size: the medians of each way, bytes per second and CPU time; the ratios of ours to the others."""
    results = []
    for size in dict.fromkeys(sample.size_bytes for sample in samples):
        result: dict[str, float] = {"size_bytes": size}
        for way in WAYS:
            turns = [s for s in samples if (s.way, s.size_bytes) == (way, size)]
            result[way] = statistics.median(turn.bytes_per_s for turn in turns)
            result[f"{way}_cpu_us"] = 1e6 * statistics.median(turn.cpu_s for turn in turns)
        result["of_ib_write_bw"] = result["verbs"] / result["ib_write_bw"]
        result["of_tcp"] = result["verbs"] / result["tcp"]
        results.append(result)
    return results


def _measure(sizes: list[int], rounds: int, turns: int) -> Iterator[Sample]:
    """Boot the machine and yield its turns as they end."""
    command = [sys.executable, "-m", "tools.benchmarks.verbs_turns", str(rounds), *map(str, sizes)]
    order = Order(
        command,
        modules=("veth", "ib_uverbs", "rdma_rxe"),
        memory="2G",
        timeout_s=120.0 + turns * _TURN_S,
        waiting=lambda: print("bench: waiting for another machine to end", file=sys.stderr),
    )
    line = output = b""
    with Machine(order) as machine:
        for stream, data in machine.outputs():
            if stream == "stderr":
                output += data
                continue
            *lines, line = (line + data).split(b"\n")
            yield from (Sample(**json.loads(done)) for done in lines)
    if machine.exit_code:
        raise HipsnetError(
            f"the turns ended with {machine.exit_code}: {output.decode(errors='replace')[-2000:]}"
        )


def _tables(results: list[dict[str, float]]) -> Group:
    rates = Table(title="one connection, rdma_rxe in a virtual machine, MB/s; wants a quiet machine")
    costs = Table(title="CPU time of the sending process, us for each write")
    for column in ("message (B)", *WAYS, "ours/ib_write_bw", "required", "ours/tcp"):
        rates.add_column(column, justify="right")
    for column in ("message (B)", *WAYS[1:]):
        costs.add_column(column, justify="right")
    for result in results:
        size = f"{result['size_bytes']:.0f}"
        enough = "yes" if result["of_ib_write_bw"] >= WANTED_RATIO else "no"
        rates.add_row(
            size,
            *(f"{result[way] / 1e6:.2f}" for way in WAYS),
            f"{result['of_ib_write_bw']:.2f}",
            f">= {WANTED_RATIO:g}: {enough}" if result["size_bytes"] >= FROM_BYTES else "",
            f"{result['of_tcp']:.2f}",
        )
        costs.add_row(size, *(f"{result[f'{way}_cpu_us']:.0f}" for way in WAYS[1:]))
    return Group(rates, costs)
