# SPDX-License-Identifier: Apache-2.0
"""Overhead of the stack on AF_XDP: one reliable connection against a bare loop and against TCP."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.table import Table

from tools.benchmarks.stack_jobs import (
    WRITE_BYTES,
    bare_receiver,
    bare_sender,
    both,
    flow_receiver,
    flow_sender,
    stack_ping,
    tcp_ping,
)
from tools.benchmarks.turns import JsonFile, show, taken
from tools.benchmarks.two_nodes import End, cable

app = typer.Typer()
WANTED_SHARE, WANTED_LATENCY = 0.8, 1.0


@dataclass(frozen=True)
class Turn:
    """One turn: bytes per second of the bare loop and of the connection; round-trip times in seconds."""

    bare_bytes_s: float
    stack_bytes_s: float
    stack_ping_s: float
    tcp_ping_s: float


@app.command()
def stack(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each; their medians count.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each sends in a turn.")] = 1.0,
    pings: Annotated[int, typer.Option(min=1, help="Round trips in a turn.")] = 3000,
    json_file: JsonFile = None,
) -> None:
    """Writes over one reliable connection against a bare AF_XDP loop; a 4 KiB write against TCP."""
    with cable() as ends:
        turns = taken("stack", rounds, (measure(ends, seconds, pings) for _ in range(rounds)))
    result = summarize(turns)
    show("stack", [result], _table(result), json_file)


def measure(ends: tuple[End, End], seconds: float, pings: int) -> Turn:
    """One turn of all loops on one cable."""
    bare_frames, _ = both(ends, bare_sender(seconds), bare_receiver(seconds))
    writes, _ = both(ends, flow_sender(seconds), flow_receiver(seconds))
    stack_s, _ = both(ends, stack_ping(pings, True), stack_ping(pings, False))
    tcp_s, _ = both(ends, tcp_ping(pings, True), tcp_ping(pings, False))
    return Turn(bare_frames * 4096 / seconds, writes * WRITE_BYTES / seconds, stack_s, tcp_s)


def summarize(turns: list[Turn]) -> dict[str, float]:
    """The medians, and the two ratios turn by turn: both sides of a ratio ran under the same load."""

    def median(value: Callable[[Turn], float]) -> float:
        return statistics.median(map(value, turns))

    return {
        "bare_bytes_s": median(lambda turn: turn.bare_bytes_s),
        "stack_bytes_s": median(lambda turn: turn.stack_bytes_s),
        "share": median(lambda turn: turn.stack_bytes_s / turn.bare_bytes_s),
        "stack_ping_us": median(lambda turn: turn.stack_ping_s * 1e6),
        "tcp_ping_us": median(lambda turn: turn.tcp_ping_s * 1e6),
        "latency": median(lambda turn: turn.stack_ping_s / turn.tcp_ping_s),
    }


def _table(result: dict[str, float]) -> Table:
    table = Table(title="one AF_XDP pair over veth, on two CPUs; wants a quiet machine")
    for column in ("", "hipsnet", "baseline", "ratio", "required", ""):
        table.add_column(column, justify="right")
    share, latency = result["share"], result["latency"]
    table.add_row(
        "1 MiB writes (Gbit/s)",
        f"{result['stack_bytes_s'] * 8 / 1e9:.2f}",
        f"bare loop {result['bare_bytes_s'] * 8 / 1e9:.2f}",
        f"{share:.2f}",
        f">= {WANTED_SHARE:g}",
        "yes" if share >= WANTED_SHARE else "no",
    )
    table.add_row(
        "4 KiB to and fro (us)",
        f"{result['stack_ping_us']:.1f}",
        f"TCP {result['tcp_ping_us']:.1f}",
        f"{latency:.2f}",
        f"<= {WANTED_LATENCY:g}",
        "yes" if latency <= WANTED_LATENCY else "no",
    )
    return table
