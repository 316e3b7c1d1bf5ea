# SPDX-License-Identifier: Apache-2.0
"""Render the answers of a ping as sums, as a table of broken paths, and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from hipsnet.topology import Fabric, Path
from orchestrator.lab.pinging import Answer

_SHOWN = 40


def _way(path: Path) -> str:
    return " ".join([path.source, *(hop.receiver.node for hop in path.hops)])


def _rtt(answers: Sequence[Answer]) -> dict[str, float]:
    times = [answer.rtt_us for answer in answers if answer.rtt_us is not None]
    if not times:
        return {}
    return {"min": min(times), "median": statistics.median(times), "max": max(times)}


def parts(fabric: Fabric, answers: Sequence[Answer], seconds: float) -> Iterator[str | Table]:
    """The parts to print: a summary, and the broken paths if there are any."""
    broken = [answer for answer in answers if not answer.reached]
    size = len(fabric.servers)
    rtt = _rtt(answers)
    times = ", ".join(f"{name} {value / 1000:.2f} ms" for name, value in rtt.items())
    yield (
        f"{fabric.name}: {size * (size - 1)} ordered pairs of {size} servers, {len(answers)} paths: "
        f"{len(answers) - len(broken)} reach their server{times and f', RTT {times}'} ({seconds:.1f} s)"
    )
    retried = sum(answer.attempts > 1 for answer in answers if answer.rtt_us is not None)
    if retried:
        yield f"{retried} paths were answered only after a retry: a cable loses frames"
    if broken:
        view = Table(title=f"{len(broken)} paths are broken", title_justify="left")
        for heading in ("from", "to", "path"):
            view.add_column(heading, no_wrap=True)
        for answer in broken[:_SHOWN]:
            view.add_row(answer.path.source, answer.path.target, _way(answer.path))
        yield view
        if len(broken) > _SHOWN:
            yield f"and {len(broken) - _SHOWN} more"


def as_json(fabric: Fabric, answers: Sequence[Answer], seconds: float) -> dict[str, Any]:
    """The answers as plain data; times in microseconds."""
    broken = [answer for answer in answers if not answer.reached]
    return {
        "fabric": fabric.name,
        "servers": len(fabric.servers),
        "paths": len(answers),
        "reached": len(answers) - len(broken),
        "answered": sum(answer.rtt_us is not None for answer in answers),
        "rtt_us": {name: round(value, 1) for name, value in _rtt(answers).items()},
        "broken": [
            {
                "source": answer.path.source,
                "target": answer.path.target,
                "path": _way(answer.path).split(),
            }
            for answer in broken
        ],
        "seconds": round(seconds, 3),
    }
