# SPDX-License-Identifier: Apache-2.0
"""The paths between two servers, as text and as data."""

from __future__ import annotations

from typing import Any

from hipsnet.topology import Fabric, Hop, Path


def as_json(fabric: Fabric, paths: tuple[Path, ...]) -> dict[str, Any]:
    """Return the paths as plain data; `via` is the layer-2 switch that a hop goes through, or null."""
    return {
        "fabric": fabric.name,
        "source": paths[0].source,
        "target": paths[0].target,
        "paths": [
            {"destination": str(path.destination), "hops": [_hop_data(fabric, hop) for hop in path.hops]}
            for path in paths
        ],
    }


def as_text(fabric: Fabric, paths: tuple[Path, ...]) -> str:
    """Return the paths as lines: each with its destination address, then its hops."""
    plural = "s" if len(paths) > 1 else ""
    kind = f"disjoint path{plural}" if fabric.shape.paths_are_disjoint else f"path{plural}, one per NIC"
    lines = [f"{fabric.name}: {paths[0].source} to {paths[0].target}, {len(paths)} {kind}"]
    for number, path in enumerate(paths, 1):
        hops = f"{len(path.hops)} hop{'s' if len(path.hops) > 1 else ''}"
        lines.append(f"\n{number}  to {path.destination}, {hops}{_equal_ways(fabric, path)}")
        lines += [f"   {_hop_text(fabric, hop)}" for hop in path.hops]
    return "\n".join(lines)


def _via(fabric: Fabric, hop: Hop) -> str | None:
    between = fabric.peer(hop.sender)
    return None if between == hop.receiver else between.node


def _hop_data(fabric: Fabric, hop: Hop) -> dict[str, Any]:
    return {
        "from": hop.sender.node,
        "port": hop.sender.name,
        "via": _via(fabric, hop),
        "to": hop.receiver.node,
        "to_port": hop.receiver.name,
    }


def _hop_text(fabric: Fabric, hop: Hop) -> str:
    steps = [f"{hop.sender.node}.{hop.sender.name}", _via(fabric, hop), f"{hop.receiver.node}"]
    return " -> ".join(step for step in steps if step)


def _equal_ways(fabric: Fabric, path: Path) -> str:
    """A remark on the number of equal-cost paths that the switches choose from."""
    ways = fabric.shape.equal_ways(path)
    return f", one of {ways} equal ways" if ways > 1 else ""
