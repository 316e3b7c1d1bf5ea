# SPDX-License-Identifier: Apache-2.0
"""The turns of a benchmark: a progress bar, then the results as a table, JSON, or both."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.progress import Progress

from hipsnet.errors import InputError

Turn = TypeVar("Turn")
Results = list[dict[str, float]]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write results here; - for stdout.")]


def taken(name: str, total: int, turns: Iterable[Turn]) -> list[Turn]:
    """Run all turns, with a progress bar on standard error."""
    done = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=total)
        for turn in turns:
            done.append(turn)
            progress.advance(task)
    return done


def show(name: str, results: Results, table: RenderableType, json_file: Path | None) -> None:
    """Print the table, unless JSON goes to standard output; write JSON if requested."""
    to_stdout = str(json_file) == "-"
    if not to_stdout:
        Console().print(table)
    if json_file is not None:
        text = json.dumps({"benchmark": name, "results": results}, indent=2) + "\n"
        typer.echo(text, nl=False) if to_stdout else json_file.write_text(text)


def sizes_in(text: str, smallest: int, largest: int) -> list[int]:
    """The sizes in bytes of `64,1414`; InputError naming --sizes for anything else."""
    try:
        sizes = [int(size) for size in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or not all(smallest <= size <= largest for size in sizes):
        raise InputError(f"--sizes: found {text!r}; allowed: {smallest} to {largest}, divided by commas")
    return sizes
