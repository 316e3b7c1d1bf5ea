# SPDX-License-Identifier: Apache-2.0
"""The table of a measuring job: the columns of nccl-tests, the physical limit, and pauses where switches send them.

It is at most 100 characters wide. GB are 10^9 bytes; time is the median iteration's, on its slowest rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hipsnet.collective.collectives import Collective
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology
from orchestrator.jobs.measurement import Measurement
from orchestrator.jobs.results import Result


@dataclass(frozen=True)
class Column:
    """A column: the two lines of its heading, its width, and the text of a result in it."""

    name: str
    unit: str
    width: int
    text: Callable[[Result], str]


def columns(has_pauses: bool) -> tuple[Column, ...]:
    """The columns of a table. Those of pauses take the place of what is the same in all rows."""
    size = Column("size", "(B)", 10, lambda result: str(result.bytes))
    vector = (
        Column("count", "(elements)", 10, lambda result: str(sum(result.case.counts))),
        Column("type", "", 8, lambda result: result.dtype),
        Column("redop", "", 5, lambda result: result.operation),
    )
    algorithm = Column("algorithm", "", 9, lambda result: result.algorithm)
    times = (
        Column("time", "(us)", 10, lambda result: f"{result.median_s * 1e6:.1f}"),
        Column("algbw", "(GB/s)", 7, lambda result: f"{result.algbw_GBps:.4f}"),
        Column("busbw", "(GB/s)", 7, lambda result: f"{result.busbw_GBps:.4f}"),
        Column("#wrong", "", 6, _wrong),
        Column("limit", "(us)", 10, lambda found: "-" if not found.limit_s else f"{found.limit_s * 1e6:.1f}"),
        Column(
            "time",
            "/limit",
            6,
            lambda found: f"{found.median_s / found.limit_s:.3f}" if found.limit_s else "-",
        ),
    )
    pauses = (
        Column("pauses", "(rx/tx)", 11, lambda result: _pair(result, "frames")),
        Column("pause", "(us)", 15, lambda result: _pair(result, "us")),
        Column("worst", "port", 6, lambda result: (result.pauses and result.pauses.worst) or "-"),
    )
    return (size, *times, *pauses) if has_pauses else (size, *vector, algorithm, *times)


def heading(table: Sequence[Column]) -> tuple[str, str]:
    """The two lines above the rows."""
    names, units = (
        " ".join(f"{text:>{column.width}}" for column, text in zip(table, texts, strict=True))
        for texts in ([column.name for column in table], [column.unit for column in table])
    )
    return f"# {names}", f"# {units}"


def row(table: Sequence[Column], result: Result) -> str:
    """The line of a result."""
    return "  " + " ".join(f"{column.text(result):>{column.width}}" for column in table)


def title(
    topology: Topology, fabric: Fabric, settings: Settings, measurement: Measurement
) -> tuple[str, ...]:
    """The title of the table: two lines, and a third one for a model."""
    ports = len(fabric.servers[0].ports)
    exchange = f" ({', '.join(settings.exchange)} inside the levels)" if settings.exchange else ""
    lines = [
        f"# {fabric.name}: {fabric.shape.title}, {len(fabric.servers)} servers with {ports} "
        f"port{'s' if ports > 1 else ''} at {topology.link.rate}",
        f"# {_collective(measurement)}{settings.algorithm}{exchange} over {settings.transport}; "
        f"{measurement.dtype}{', sum' if Collective(measurement.collective).reduces else ''}; "
        f"{measurement.iterations} iterations after {measurement.warmup} to warm up",
    ]
    for case in measurement.cases:
        if case.model:
            count = len(case.counts)
            lines.append(f"# the gradients of {case.model}, in {count} bucket{'s' if count > 1 else ''}")
    return tuple(lines)


def _collective(measurement: Measurement) -> str:
    if measurement.collective == "all_reduce":
        return ""
    root = f" at rank {measurement.root}" if Collective(measurement.collective).has_root else ""
    return f"{measurement.collective}{root} by "


def _wrong(result: Result) -> str:
    if result.wrong is None:
        return "N/A"
    return f"{result.wrong}{'!' if result.same_bits is False else ''}"


def _pair(result: Result, what: str) -> str:
    """The numbers received and sent by servers; "-" if there is no counter."""
    if result.pauses is None:
        return "-"
    counts = (getattr(result.pauses, f"{direction}_{what}") for direction in ("rx", "tx"))
    return "/".join("-" if count is None else str(count) for count in counts)
