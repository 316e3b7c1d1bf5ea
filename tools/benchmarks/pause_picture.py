# SPDX-License-Identifier: Apache-2.0
"""Fabrics side by side; the colour of a cable is the share of time for which it was paused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hipsnet.topology import Fabric, Topology, layout
from hipsnet.topology.picture import Box, Picture
from orchestrator.views.figures import INK, PAPER, figure

FREE, STOPPED = "#94a3b8", "#dc2626"
Panel = tuple[Topology, Fabric, str, Sequence[float], str]
"""Topology, fabric, title, the share of each cable in the order of the fabric's links, and the frozen port."""


def draw(panels: Sequence[Panel], output: Path) -> None:
    """Write the picture; matplotlib defines the allowed suffixes of `output`."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("pauses", [FREE, "#f59e0b", STOPPED])
    pictures = [layout.arrange(topology, fabric) for topology, fabric, *_ in panels]
    with figure(output, (7.0 * len(panels), 4.6), bbox_inches="tight") as drawn:
        axes = drawn.subplots(1, len(panels), squeeze=False)[0]
        for place, picture, panel in zip(axes, pictures, panels, strict=True):
            _panel(place, picture, panel, colours)
        scale = ScalarMappable(cmap=colours)
        scale.set_clim(0, 100)
        bar = drawn.colorbar(
            scale, ax=list(axes), orientation="horizontal", fraction=0.04, pad=0.04, aspect=60
        )
        bar.set_label("share of the time for which PFC stopped the cable (%)", fontsize=9, color=INK)


def _panel(axes: Any, picture: Picture, panel: Panel, colours: Any) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    _, _, title, shares, frozen = panel
    stopped = sum(share > 0.05 for share in shares)
    axes.set_title(f"{title}: {stopped} of {len(shares)} cables stopped", fontsize=11, color=INK)
    axes.axis("off")
    axes.set_aspect("equal")
    order = sorted(range(len(shares)), key=lambda index: shares[index])
    for index in order:
        share = min(1.0, shares[index])
        curve = Curve(picture.wires[index].points, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4])
        axes.add_patch(
            PathPatch(
                curve, facecolor="none", edgecolor=colours(share), linewidth=1.0 + 2.2 * share, zorder=2
            )
        )
    for box in picture.boxes:
        _box(axes, box, is_frozen=box.label == frozen.split(".")[0])
    axes.autoscale_view()


def _box(axes: Any, box: Box, is_frozen: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    server = box.role == "server"
    fill = STOPPED if is_frozen else INK if server else PAPER
    axes.add_patch(
        FancyBboxPatch(
            (box.x - box.width / 2, box.y - box.height / 2), box.width, box.height,
            boxstyle=f"round,pad=0,rounding_size={0.07 if server else min(box.width, box.height) / 2}",
            facecolor=fill, edgecolor=INK, linewidth=1.0, zorder=3,
        )
    )  # fmt: skip
    axes.text(
        box.x, box.y, box.label, fontsize=6, color=PAPER if server else INK, ha="center",
        va="center_baseline", rotation=90 if box.upright else 0, zorder=4,
    )  # fmt: skip
