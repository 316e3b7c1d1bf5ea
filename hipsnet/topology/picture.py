# SPDX-License-Identifier: Apache-2.0
"""The elements of a picture of a fabric: boxes, wires and regions, in inches, y upwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A node: its centre, its size, and whether its label runs upwards."""

    label: str
    role: Literal["server", "switch"]
    level: int
    x: float
    y: float
    width: float
    height: float
    upright: bool = False


@dataclass(frozen=True)
class Wire:
    """A cable: a cubic Bezier curve of start, two control points and end."""

    level: int
    points: tuple[Point, Point, Point, Point]


@dataclass(frozen=True)
class Region:
    """A background behind the nodes of a group: its lower left corner and size."""

    label: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Drawing:
    """A fabric without words: boxes by node, a wire for each link in the fabric's order, regions."""

    boxes: Mapping[str, Box]
    wires: tuple[Wire, ...]
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A whole picture; `levels` is the legend: the meaning of the colour of each level of cables."""

    title: str
    subtitle: str
    levels: tuple[str, ...]
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    regions: tuple[Region, ...] = ()


def text_width(text: str) -> float:
    """Return the width of a label."""
    return 0.085 * len(text)


def span(boxes: Iterable[Box]) -> tuple[float, float]:
    """Return the left and the right end of these boxes."""
    boxes = tuple(boxes)
    return min(box.x - box.width / 2 for box in boxes), max(box.x + box.width / 2 for box in boxes)
