# SPDX-License-Identifier: Apache-2.0
"""Drawing a fabric into a file: .svg, .pdf and .png by matplotlib, .dot for Graphviz."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Topology, layout
from hipsnet.topology.picture import Box, Picture, Region, Wire
from orchestrator.views import drawing_dot
from orchestrator.views.figures import INK, PAPER, figure, naming

ENDINGS = (".svg", ".pdf", ".png", ".dot")
COLOURS = ("#2563eb", "#ea580c", "#059669", "#9333ea", "#db2777", "#0891b2", "#ca8a04", "#4b5563")
FAINT = "#f1f5f9"
MARGIN, HEADER, FOOTER = 0.4, 0.85, 0.5
LEGEND_MARK, LEGEND_CHARACTER = 0.8, 0.07
MAX_WIDTH = 60.0  # inches; a wider picture is scaled down as a whole
MAX_PIXELS = 12_000


def write(topology: Topology, fabric: Fabric, output: Path) -> None:
    """Draw the fabric into `output`; InputError for another ending, or a file that cannot be opened."""
    kind = output.suffix.lower()
    if kind not in ENDINGS:
        raise InputError(
            f"{output}: the name of a picture ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        )
    if kind == ".dot":
        with naming(output):
            output.write_text(drawing_dot.text(fabric, COLOURS), encoding="utf-8")
    else:
        _draw(layout.arrange(topology, fabric), output)


def _draw(picture: Picture, output: Path) -> None:
    left, right, bottom, top = _bounds(picture)
    scale = min(1.0, MAX_WIDTH / (right - left))
    size = ((right - left) * scale, (top - bottom) * scale)
    with figure(output, size, dpi=min(200.0, MAX_PIXELS / max(size))) as drawn:
        axes = drawn.add_axes((0, 0, 1, 1))
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        axes.axis("off")
        for region in picture.regions:
            _region(axes, region, scale)
        for wire in picture.wires:
            _wire(axes, wire, scale, thin=len(picture.wires) > 100)
        for box in picture.boxes:
            _box(axes, box, scale)
        _words(axes, picture, (left, right, bottom, top), scale)


def _bounds(picture: Picture) -> tuple[float, float, float, float]:
    """Return left, right, bottom and top, with margins for the text."""
    xs = [box.x + side * box.width / 2 for box in picture.boxes for side in (-1, 1)]
    ys = [box.y + side * box.height / 2 for box in picture.boxes for side in (-1, 1)]
    for region in picture.regions:
        xs += [region.x, region.x + region.width]
        ys += [region.y, region.y + region.height]
    for wire in picture.wires:
        curve = [_bezier(wire, step / 12) for step in range(13)]
        xs += [x for x, _ in curve]
        ys += [y for _, y in curve]
    middle, half = (min(xs) + max(xs)) / 2, (max(xs) - min(xs)) / 2
    half = max(half, _words_width(picture) / 2) + MARGIN
    return middle - half, middle + half, min(ys) - MARGIN - FOOTER, max(ys) + MARGIN + HEADER


def _words_width(picture: Picture) -> float:
    return max(0.165 * len(picture.title), 0.096 * len(picture.subtitle), sum(_legend_widths(picture)))


def _legend_widths(picture: Picture) -> list[float]:
    return [LEGEND_MARK + LEGEND_CHARACTER * len(text) for text in picture.levels]


def _bezier(wire: Wire, t: float) -> tuple[float, float]:
    a, b, c, d = wire.points
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    return (
        sum(w * p[0] for w, p in zip(weights, (a, b, c, d), strict=True)),
        sum(w * p[1] for w, p in zip(weights, (a, b, c, d), strict=True)),
    )


def _region(axes: Any, region: Region, scale: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (region.x, region.y),
            region.width,
            region.height,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor=FAINT,
            edgecolor="none",
            zorder=0,
        )
    )
    axes.text(
        region.x + region.width / 2,
        region.y + 0.12,
        region.label,
        fontsize=8 * scale,
        color="#64748b",
        ha="center",
        zorder=1,
    )


def _wire(axes: Any, wire: Wire, scale: float, thin: bool) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    curve = Curve(wire.points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
    axes.add_patch(
        PathPatch(
            curve,
            facecolor="none",
            edgecolor=COLOURS[wire.level % len(COLOURS)],
            linewidth=(1.1 if thin else 1.8) * scale,
            alpha=0.7 if thin else 0.9,
            capstyle="round",
            zorder=2,
        )
    )


def _box(axes: Any, box: Box, scale: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    server = box.role == "server"
    colour = INK if server else COLOURS[box.level % len(COLOURS)]
    axes.add_patch(
        FancyBboxPatch(
            (box.x - box.width / 2, box.y - box.height / 2),
            box.width,
            box.height,
            boxstyle=f"round,pad=0,rounding_size={0.07 if server else min(box.width, box.height) / 2}",
            facecolor=INK if server else PAPER,
            edgecolor=PAPER if server else colour,
            linewidth=(1.5 if server else 1.8) * scale,
            zorder=3,
        )
    )
    axes.text(
        box.x,
        box.y,
        box.label,
        fontsize=8.5 * scale,
        color=PAPER if server else colour,
        fontweight="bold",
        ha="center",
        va="center_baseline",
        rotation=90 if box.upright else 0,
        zorder=4,
    )


def _words(axes: Any, picture: Picture, bounds: tuple[float, float, float, float], scale: float) -> None:
    """Write title and subtitle above the picture, and the legend of colours below it."""
    left, right, bottom, top = bounds
    middle = (left + right) / 2
    axes.text(
        middle, top - 0.42, picture.title, fontsize=18 * scale, color=INK, fontweight="bold", ha="center"
    )
    axes.text(middle, top - 0.76, picture.subtitle, fontsize=10.5 * scale, color="#475569", ha="center")
    x = middle - sum(_legend_widths(picture)) / 2
    for level, (text, width) in enumerate(zip(picture.levels, _legend_widths(picture), strict=True)):
        colour = COLOURS[level % len(COLOURS)]
        axes.plot([x + 0.1, x + 0.42], [bottom + 0.35] * 2, color=colour, linewidth=3 * scale)
        axes.text(x + 0.52, bottom + 0.35, text, fontsize=9 * scale, color="#475569", va="center")
        x += width
