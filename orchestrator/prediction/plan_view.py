# SPDX-License-Identifier: Apache-2.0
"""`hipsnet plan`: compute the fabrics that fit, as a table or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from hipsnet.collective.models import buckets
from hipsnet.predict.closed import Constants
from hipsnet.predict.planning import Candidate, Parts, Prices, candidates, next_sizes
from hipsnet.units import format_rate
from orchestrator.prediction.bar import bar

_HEADING = (
    (
        *("# fabric", "ports", "switches", "cables", "bisection", "diameter", "best", "time", "time"),
        *("one dead", "cost"),
    ),
    ("#", "", "x ports", "", "", "(cables)", "", "(ms)", "/limit", "port", ""),
)


def planned(parts: Parts, prices: Prices, model: str, latency_s: float) -> list[Candidate]:
    """The fabrics that fit, with the time of a model's gradients. Raises InputError for an unknown model."""
    counts = buckets(model, "float32")
    with bar() as (report, _):
        return candidates(
            parts, prices, counts, Constants(latency_s=latency_s),
            lambda done, total: report("fabrics", done, total),
        )  # fmt: skip


def as_json(parts: Parts, prices: Prices, model: str, found: Sequence[Candidate]) -> str:
    """Everything as JSON: times in seconds, rates in bit/s."""
    document = {
        "parts": asdict(parts),
        "prices": asdict(prices),
        "model": model,
        "fabrics": [_entry(parts, one) for one in found],
    }
    return json.dumps(document, indent=2)


def lines(parts: Parts, model: str, found: Sequence[Candidate]) -> Iterator[str]:
    """The table, and the sizes of the kinds that do not fit."""
    rate = format_rate(parts.rate_bps)
    yield f"# {parts.servers} servers with at most {parts.ports} ports at {rate} each; gradients of {model}"
    rows = [*_HEADING, *(tuple(_cells(parts, one)) for one in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((row[0].ljust(widths[0]), *cells))
    for shape in next_sizes(parts):
        kind, servers = type(shape).__name__, math.prod(shape.radices)
        yield f"# no {kind} has {parts.servers} servers; the next one is {shape.title} with {servers}"


def _cells(parts: Parts, one: Candidate) -> Iterator[str]:
    shape, census = one.shape, one.census
    yield f"  {shape.title}"
    yield str(shape.ports_per_server)
    yield f"{census.switches} x {shape.switch_ports}" if census.switches else "-"
    yield str(census.cables)
    yield format_rate(census.bisection_cables * parts.rate_bps)
    yield str(census.diameter_cables)
    yield one.algorithm or "-"
    yield f"{one.time_s * 1e3:.3f}" if one.time_s else "-"
    yield f"{one.time_s / one.limit_s:.3f}" if one.time_s else "-"
    yield f"x {one.slowdown:.2f}" if one.slowdown else "cut off"
    yield f"{one.cost:,.0f}" if one.cost else "-"


def _entry(parts: Parts, one: Candidate) -> dict[str, Any]:
    shape = one.shape
    return {
        "title": shape.title,
        "fabric": shape.model_dump(mode="json"),
        "ports_per_server": shape.ports_per_server,
        "switch_ports": shape.switch_ports,
        **asdict(one.census),
        "bisection_bps": one.census.bisection_cables * parts.rate_bps,
        "algorithm": one.algorithm,
        "time_s": one.time_s,
        "limit_s": one.limit_s,
        "dead_port_slowdown": one.slowdown,
        "cost": one.cost,
    }
