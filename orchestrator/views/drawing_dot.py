# SPDX-License-Identifier: Apache-2.0
"""A fabric as a Graphviz graph."""

from __future__ import annotations

from hipsnet.topology import Fabric


def text(fabric: Fabric, colours: tuple[str, ...]) -> str:
    """Return the graph; cables are coloured by level, and every port is named at its end."""
    lines = [
        f'graph "{fabric.name}" {{',
        "  rankdir = BT; ranksep = 1.2; nodesep = 0.2;"
        if fabric.switches
        else "  layout = neato; overlap = false; splines = true;",
        '  node [fontname = "sans-serif"]; edge [fontname = "sans-serif", fontsize = 8];',
    ]
    server_style = 'shape = box, style = "filled,rounded", fillcolor = "#0f172a", fontcolor = white'
    for server in fabric.servers:
        lines.append(f'  "{server.name}" [{server_style}];')
    for switch in fabric.switches:
        colour = colours[switch.level % len(colours)]
        lines.append(f'  "{switch.name}" [shape = ellipse, color = "{colour}", fontcolor = "{colour}"];')
    for link in fabric.links:
        ends = f'taillabel = "{link.a.name}", headlabel = "{link.b.name}"'
        colour = colours[link.a.level % len(colours)]
        lines.append(f'  "{link.a.node}" -- "{link.b.node}" [color = "{colour}", {ends}];')
    if fabric.switches:
        names = " ".join(f'"{server.name}";' for server in fabric.servers)
        lines.append(f"  {{ rank = same; {names} }}")
    return "\n".join([*lines, "}", ""])
