# SPDX-License-Identifier: Apache-2.0
"""The table of fabric kinds in hipsnet/topology/README.md, made from the registry."""

from __future__ import annotations

from hipsnet.topology import KINDS


def table() -> str:
    """A line for every kind: its name, what it is, an example, its levels of cables, its default exchange."""
    lines = ["| kind | network | example | levels of cables | HiPS |", "|---|---|---|---|---|"]
    for kind in KINDS:
        shape, about = kind.sample(), (kind.__doc__ or "").partition("\n")[0].rstrip(".")
        hips = f"{shape.hips.exchange} inside a level" if shape.hips else "not defined"
        levels = ", ".join(shape.cable_levels)
        lines.append(f"| `{kind.kind_name()}` | {about} | {shape.title} | {levels} | {hips} |")
    return "\n".join(lines)
