# SPDX-License-Identifier: Apache-2.0
"""The algorithms by name, with their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hipsnet.collective import hips, mesh, ps, ring
from hipsnet.collective.hierarchy import Hierarchy, build_hierarchy
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric, FabricKind


@dataclass(frozen=True)
class Algorithm:
    """An algorithm and its options: `exchange` and `one_way` belong to hips, `servers` to ps.

    Raises InputError for an unknown name, and for an option of another algorithm.
    """

    name: str = "hips"
    exchange: tuple[str, ...] = ()
    one_way: bool = False
    servers: int = 1

    def __post_init__(self) -> None:
        if self.name not in _HIERARCHY:
            raise InputError(f"algorithm: found {self.name!r}; allowed: {', '.join(NAMES)}")
        for option, value, owner in (
            ("exchange", self.exchange, "hips"),
            ("one_way", self.one_way, "hips"),
            ("servers", self.servers != 1, "ps"),
        ):
            if value and self.name != owner:
                raise InputError(f"{option} is an option of {owner}, not of {self.name}; leave it out")

    def build(self, fabric: Fabric, count: int) -> Schedule:
        """Return the schedule for `count` elements; raise InputError if the fabric does not support it."""
        if count < 0:
            raise InputError(f"count: found {count}; allowed: 0 or more elements")
        return build_hierarchy(self.name, self.hierarchy(fabric.shape), count)

    def hierarchy(self, shape: FabricKind) -> Hierarchy:
        """Return the threads for vectors of any length; raise InputError if the fabric does not support it."""
        return _HIERARCHY[self.name](self, shape)


_HIERARCHY: dict[str, Callable[[Algorithm, FabricKind], Hierarchy]] = {
    "hips": lambda options, shape: hips.hierarchy(shape, options.exchange, options.one_way),
    "ring": lambda _, shape: ring.hierarchy(shape),
    "mesh": lambda _, shape: mesh.hierarchy(shape),
    "ps": lambda options, shape: ps.hierarchy(shape, options.servers),
}
NAMES = tuple(_HIERARCHY)
"""The names of all algorithms."""
