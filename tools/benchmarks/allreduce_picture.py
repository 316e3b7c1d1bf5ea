# SPDX-License-Identifier: Apache-2.0
"""The time of an all-reduce over its size, for all contenders, with the physical limit; both axes logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hipsnet.units import approximate_size
from orchestrator.views.figures import INK, figure
from tools.benchmarks.allreduce_plan import Part

COLOURS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#db2777", "#0891b2")
FAINT = "#94a3b8"
Curve = Sequence[tuple[int, float]]


def draw(part: Part, curves: Mapping[str, Curve], limit: Curve, output: Path) -> None:
    """Write the picture of (bytes, seconds); the ending of `output` is .svg, .png or .pdf."""
    with figure(output, (8.0, 5.2), bbox_inches="tight") as drawn:
        axes = drawn.subplots()
        for (name, curve), colour in zip(curves.items(), COLOURS, strict=False):
            sizes, times = zip(*curve, strict=True)
            is_first = colour == COLOURS[0]
            width = 2.4 if is_first else 1.3
            axes.loglog(sizes, [1e3 * time for time in times], "o-", color=colour, label=name, lw=width, ms=4)
        if limit:
            sizes, times = zip(*limit, strict=True)
            first = next(iter(curves)).partition(", ")[2]
            label = f"physical limit, {first}"
            axes.loglog(sizes, [1e3 * time for time in times], "--", color=INK, label=label, lw=1.2)
        ticks = [size for size, _ in next(iter(curves.values()))]
        axes.set_xticks(ticks, [approximate_size(size) for size in ticks], rotation=45, fontsize=8)
        axes.minorticks_off()
        axes.set_ylim(bottom=0.05)
        axes.set_xlabel("size of the vector", color=INK)
        axes.set_ylabel("time, ms", color=INK)
        axes.set_title(f"all-reduce of float32 among nine servers, {part.rate} a port", color=INK)
        axes.grid(color=FAINT, alpha=0.3)
        axes.legend(fontsize=8, frameon=False)
