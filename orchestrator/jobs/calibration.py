# SPDX-License-Identifier: Apache-2.0
"""The command `calibrate`: measure the algorithms of `--algorithm auto`, and fit the cost model to their times."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hipsnet.collective import choice
from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.cost import Constants, Features, Sample, constants, features, fit
from hipsnet.errors import HipsnetError, InputError
from hipsnet.topology import Fabric
from orchestrator import topology_file
from orchestrator.jobs import job, running
from orchestrator.jobs.request import Request

SIZES = "4,1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB"
_ITERATIONS, _WARMUP = 20, 3
_ITEM_BYTES = 4
_SECTION = re.compile(r"^cost:.*\n(?:[ \t]+.*\n|#.*\n(?=[ \t]))*", re.MULTILINE)


def calibrate(file: Path, sizes: str, options: running.Options, engine: Mapping[str, Any]) -> str:
    """Measure, fit, and write the section `cost` of the topology file; returns what to print.

    Raises InputError for a fixed algorithm, and what `running.run` raises.
    """
    topology, fabric = topology_file.load(file)
    chooser = choice.of_settings(topology, fabric, job.settings(file, fabric, **engine))
    if engine.get("algorithm", choice.AUTO) != choice.AUTO or len(chooser.candidates) == 1:
        raise InputError(
            "calibrate compares the algorithms of `--algorithm auto`; omit --algorithm, --exchange, --one-way and "
            "--servers"
        )
    samples: list[Sample] = []
    for algorithm in chooser.candidates:
        samples += _samples(file, fabric, algorithm, sizes, options, engine)
    found = fit(samples)
    text = file.read_text(encoding="utf-8")
    file.write_text(with_section(text, found), encoding="utf-8")
    error = sum(abs(found.time_s(one.features) / one.time_s - 1) for one in samples) / len(samples)
    before = constants(topology)
    return f"cost: {found}; mean error {error:.0%} of {len(samples)} times (before: {before})"


def with_section(text: str, found: Constants) -> str:
    """Return the text of a topology file with these constants in its section `cost`; the rest is unchanged."""
    section = (
        f"cost: {{call_us: {found.call_us}, step_us: {found.step_us}, message_us: {found.message_us}, "
        f"byte_ns: {found.byte_ns}}}\n"
    )
    if _SECTION.search(text):
        return _SECTION.sub(section, text, count=1)
    return f"{text.rstrip()}\n\n{section}"


def _samples(
    file: Path,
    fabric: Fabric,
    algorithm: Algorithm,
    sizes: str,
    options: running.Options,
    engine: Mapping[str, Any],
) -> Sequence[Sample]:
    """Measure one algorithm at all sizes."""
    fixed = {**engine, "algorithm": algorithm.name, "exchange": algorithm.exchange}
    with TemporaryDirectory(prefix="hipsnet-calibrate-") as folder:
        output = Path(folder) / "results.json"
        request = Request(sizes=sizes, iters=_ITERATIONS, warmup=_WARMUP, json=str(output))
        if code := running.run(file, (), request, options, fixed):
            raise HipsnetError(f"measuring {choice.label(algorithm)} failed with exit code {code}; see above")
        results = json.loads(output.read_text())["results"]
    return [Sample(_features(algorithm, fabric, one["count"]), one["time_s"]["median"]) for one in results]


def _features(algorithm: Algorithm, fabric: Fabric, count: int) -> Features:
    return features(algorithm.build(fabric, count), fabric, _ITEM_BYTES)
