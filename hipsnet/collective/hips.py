"""HiPS: hierarchical parameter synchronization on BCube and Torus (Geng et al., SIGCOMM NetAI 2018).

As many threads as there are starting levels (and, on a torus, directions); at every stage each works on another
level, so that all ports carry the same load all the time.
"""

from __future__ import annotations

from hipsnet.collective.exchange import Exchange, mesh, ring, server
from hipsnet.collective.hierarchy import Thread, build_hierarchy, rotated
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric


def build(fabric: Fabric, count: int, exchange: tuple[str, ...] = (), one_way: bool = False) -> Schedule:
    """The schedule of an all-reduce of `count` elements.

    `exchange` names how a level's group exchanges (mesh, ring or ps): nothing for the fabric's own way (mesh on BCube,
    ring on Torus), one name for all levels, or one for each. `one_way` uses torus rings in one direction only.
    Raises InputError where the fabric has no levels.
    """
    if fabric.kind == "bcube":
        return _build_bcube(fabric, count, _per_level(exchange or ("mesh",), fabric))
    if fabric.kind == "torus":
        return _build_torus(fabric, count, _per_level(exchange or ("ring",), fabric), one_way)
    raise InputError(f"hips needs levels: a bcube or a torus, not a {fabric.kind}; use ring, mesh or ps")


def _build_bcube(fabric: Fabric, count: int, names: tuple[str, ...]) -> Schedule:
    depth = len(fabric.sides)
    threads = [
        Thread(rotated(depth, start), _exchanges(fabric, names, start, 1), lambda level, _src, _dst: level)
        for start in range(depth)
    ]
    return build_hierarchy("hips", fabric.sides, count, threads)


def _build_torus(fabric: Fabric, count: int, names: tuple[str, ...], one_way: bool) -> Schedule:
    depth = len(fabric.sides)
    ports = {(port.level, port.direction): port.index for port in fabric.servers[0].ports}

    def shorter_way(level: int, src: int, dst: int) -> int:
        side = fabric.sides[level]
        if side == 2:
            return ports[level, 0]
        return ports[level, 1 if (dst - src) % side <= side // 2 else -1]

    threads = [
        Thread(rotated(depth, start), _exchanges(fabric, names, start, direction), shorter_way)
        for start in range(depth)
        for direction in ((1,) if one_way else (1, -1))
    ]
    return build_hierarchy("hips", fabric.sides, count, threads)


def _per_level(names: tuple[str, ...], fabric: Fabric) -> tuple[str, ...]:
    depth = len(fabric.sides)
    if len(names) not in (1, depth):
        raise InputError(f"exchange: found {len(names)} names; wanted one, or one for each of {depth} levels")
    return names * depth if len(names) == 1 else names


def _exchanges(fabric: Fabric, names: tuple[str, ...], start: int, direction: int) -> tuple[Exchange, ...]:
    """By level. The server of a ps group rotates with the thread, so that the threads' servers differ."""
    exchanges = []
    for name, side in zip(names, fabric.sides, strict=True):
        if name == "ring":
            exchanges.append(ring(side, direction))
        else:
            exchanges.append(mesh(side) if name == "mesh" else server(side, start % side))
    return tuple(exchanges)
