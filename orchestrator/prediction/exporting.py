# SPDX-License-Identifier: Apache-2.0
"""`hipsnet export`: a schedule or a fabric as a file of another engine or simulator."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.models import ITEM_BYTES
from hipsnet.errors import InputError
from hipsnet.predict.export import astra, chakra, msccl
from hipsnet.predict.export.chunks import chunk_count
from hipsnet.predict.orbits import require_memory
from hipsnet.units import given, parse_size
from orchestrator import topology_file
from orchestrator.jobs.measurement import count
from orchestrator.prediction import asked
from orchestrator.prediction.bar import bar
from orchestrator.views.figures import naming

FORMATS = ("msccl", "chakra", "astra")


def export(
    file: Path, form: str, size: str | None, latency: str, output: Path | None, engine: Mapping[str, Any]
) -> None:
    """Write the file, or print it. Raises InputError for what the format cannot express."""
    if form not in FORMATS:
        raise InputError(f"--format: found {form!r}; allowed: {', '.join(FORMATS)}")
    settings = dict(engine)
    algorithm = Algorithm(settings.pop("algorithm", "hips"), **settings)
    if form == "astra":
        subject = asked.subject(file, asked.Options())
        latency_s = asked.seconds("--latency", latency)
        _write(astra.network(subject.shape, subject.rate_bps, latency_s), output)
    elif form == "msccl":
        _write(_msccl(file, algorithm, size), output)
    else:
        _chakra(file, algorithm, size, output)


def _msccl(file: Path, algorithm: Algorithm, size: str | None) -> str:
    _, fabric = topology_file.load(file)
    chunks = chunk_count(algorithm.hierarchy(fabric.shape))
    if size is not None:
        elements = count(given("--size", size, parse_size), "float32")
        if elements % chunks:
            least = max(chunks, elements // chunks * chunks) * ITEM_BYTES["float32"]
            raise InputError(
                f"--size: found {elements} elements, which {chunks} chunks do not divide; GPUs would use another "
                f"algorithm for such a vector; the nearest size is {least}B"
            )
    with bar() as (report, _):
        return msccl.export(algorithm, fabric, lambda done, total: report("GPUs", done, total))


def _chakra(file: Path, algorithm: Algorithm, size: str | None, output: Path | None) -> None:
    if output is None or size is None:
        raise InputError("chakra: needs --size, and -o PREFIX for the files PREFIX.0.et, PREFIX.1.et, ...")
    _, fabric = topology_file.load(file)
    elements = count(given("--size", size, parse_size), "float32")
    require_memory(algorithm.hierarchy(fabric.shape), f"{algorithm.name} on {fabric.shape.title}")
    schedule = algorithm.build(fabric, elements)
    with bar() as (report, _):
        for rank, content in enumerate(chakra.traces(schedule, fabric, ITEM_BYTES["float32"])):
            report("ranks", rank, schedule.world_size)
            path = output.with_name(f"{output.name}.{rank}.et")
            with naming(path):
                path.write_bytes(content)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    with naming(output):
        output.write_text(text, encoding="utf-8")
