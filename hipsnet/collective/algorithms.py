"""The algorithms by name, with their options."""

from __future__ import annotations

from dataclasses import dataclass

from hipsnet.collective import hips, mesh, ps, ring
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric

NAMES = ("hips", "ring", "mesh", "ps")


@dataclass(frozen=True)
class Algorithm:
    """An algorithm and its options: `exchange` and `one_way` are hips', `servers` is ps'."""

    name: str = "hips"
    exchange: tuple[str, ...] = ()
    one_way: bool = False
    servers: int = 1

    def build(self, fabric: Fabric, count: int) -> Schedule:
        """The schedule for `count` elements; raises InputError for what the algorithm or the fabric cannot do."""
        if self.name == "hips":
            return hips.build(fabric, count, self.exchange, self.one_way)
        if self.name == "ps":
            return ps.build(fabric, count, self.servers)
        if self.name in ("ring", "mesh"):
            return (ring if self.name == "ring" else mesh).build(fabric, count)
        raise InputError(f"algorithm {self.name!r} is not one of {', '.join(NAMES)}")
