# SPDX-License-Identifier: Apache-2.0
"""The fluid simulator beside SimGrid: the same flows, the same ends, and the time that both take."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from hipsnet.collective.algorithms import Algorithm
from hipsnet.errors import CapabilityError
from hipsnet.predict.fluid.flows import Lanes, independent, run
from hipsnet.predict.network import Network
from hipsnet.topology import Topology, build
from tools.benchmarks.turns import JsonFile, Results, show, taken

app = typer.Typer()

RATE_BPS, PIECE = 10**10, 1 << 20
SCRIPT = Path(__file__).with_name("simgrid_flows.py")


@dataclass(frozen=True, eq=False)
class Scene:
    """Flows, in the form of both simulators."""

    name: str
    lanes: Lanes
    sizes: np.ndarray[Any, Any]
    simgrid: str


@app.command()
def predict(
    servers: Annotated[int, typer.Option(help="servers at one switch: 128 have 32,512 flows")] = 128,
    random: Annotated[int, typer.Option(help="servers of the Fat-Tree with random flows")] = 24,
    turns: Annotated[int, typer.Option(help="measurements of each; the median counts")] = 3,
    json_file: JsonFile = None,
) -> None:
    """Simulate all transfers of a mesh at once, equal ones and random ones; SimGrid simulates them, too.

    At one switch all flows are equal. The random ones end one by one, and each end changes the rates of all others.
    """
    scenes = [
        _scene("equal, one switch", {"kind": "bcube", "n": servers, "levels": 1}, False),
        _scene("random, Fat-Tree", {"kind": "fattree", "servers": random}, True),
    ]
    table = Table(title="the same flows, simulated", title_justify="left")
    for heading in ("flows", "", "hipsnet", "SimGrid", "ratio", "difference"):
        table.add_column(heading, justify="left" if not heading else "right")
    results: Results = []
    for scene in scenes:
        measured = taken(scene.name, turns, _turns(scene, turns))
        ours, theirs, worst = (statistics.median(column) for column in zip(*measured, strict=True))
        flows, ratio = len(scene.sizes), f"{theirs / ours:.1f}x"
        table.add_row(f"{flows:,}", scene.name, f"{ours:.3f} s", f"{theirs:.2f} s", ratio, f"{worst:.0e}")
        results.append({"flows": flows, "hipsnet_s": ours, "simgrid_s": theirs, "difference": worst})
    show("predict", results, table, json_file)


def _scene(name: str, fabric: dict[str, Any], is_random: bool) -> Scene:
    made = build(Topology.model_validate({"version": 1, "name": "bench", "fabric": fabric}))
    transfers = Algorithm("mesh").build(made, len(made.servers)).transfers
    network = Network(made)
    first, cables = network.routes(transfers["src"], transfers["level"], transfers["dst"])
    levels = np.random.default_rng(1).integers(1, 1000, len(transfers))
    sizes = (PIECE * levels if is_random else np.full(len(transfers), PIECE)).astype(np.uint32)
    capacity, zeros = np.full(network.cables, RATE_BPS / 8), np.zeros(len(transfers))
    flows = [
        {
            "source": int(row["src"]),
            "target": int(row["dst"]),
            "bytes": int(size),
            "links": cables[a:b].tolist(),
        }
        for row, size, (a, b) in zip(transfers, sizes, pairwise(first), strict=True)
    ]
    given = json.dumps({"capacity_Bps": capacity.tolist(), "flows": flows})
    return Scene(name, Lanes(capacity, (first, cables), zeros, zeros), sizes, given)


def _turns(scene: Scene, turns: int) -> Iterator[tuple[float, float, float]]:
    """In alternation: seconds of ours, of SimGrid, and the largest relative difference of two ends."""
    for _ in range(turns):
        begin = time.perf_counter()
        found = run(scene.lanes, independent(scene.sizes, len(scene.sizes)), record=True).applied_s
        took = time.perf_counter() - begin
        command = [sys.executable, str(SCRIPT)]
        done = subprocess.run(command, input=scene.simgrid, capture_output=True, text=True)
        if done.returncode:
            reason = done.stderr[-500:]
            raise CapabilityError(f"SimGrid does not run; tools/setup installs python3-simgrid:\n{reason}")
        theirs = json.loads(done.stdout)
        assert found is not None
        yield took, theirs["took_s"], float(np.abs(found / np.array(theirs["ends_s"]) - 1).max())
