# SPDX-License-Identifier: Apache-2.0
"""The algorithms by name, with their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hipsnet.collective import hips, mesh, ps, ring
from hipsnet.collective.all_to_all import build_all_to_all
from hipsnet.collective.collectives import ALL_REDUCE, Collective
from hipsnet.collective.hierarchy import Hierarchy, build_hierarchy
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric, FabricKind


@dataclass(frozen=True)
class Algorithm:
    """An algorithm and its options: `one_way` belongs to hips, `servers` to ps, `exchange` to hips.

    mesh knows one exchange, full: each rank sends its whole vector to all others.
    Raises InputError for an unknown name, and for an option of another algorithm.
    """

    name: str = "hips"
    exchange: tuple[str, ...] = ()
    one_way: bool = False
    servers: int = 1

    def __post_init__(self) -> None:
        if self.name not in _HIERARCHY:
            raise InputError(f"algorithm: found {self.name!r}; allowed: {', '.join(NAMES)}")
        is_full_mesh = self.name == "mesh" and self.exchange == ("full",)
        for option, value, owner in (
            ("exchange", self.exchange and not is_full_mesh, "hips"),
            ("one_way", self.one_way, "hips"),
            ("servers", self.servers != 1, "ps"),
        ):
            if value and self.name != owner:
                raise InputError(f"{option} is an option of {owner}, not of {self.name}; leave it out")

    def build(self, fabric: Fabric | FabricKind, count: int, collective: Collective = ALL_REDUCE) -> Schedule:
        """Return the schedule of a collective on a vector of `count` elements.

        For all_to_all, the vector consists of the inputs of all ranks (`Collective.total`). Raises InputError if
        the fabric does not support the algorithm, or the algorithm or the vector the collective.
        """
        if count < 0:
            raise InputError(f"count: found {count}; allowed: 0 or more elements")
        shape = fabric.shape if isinstance(fabric, Fabric) else fabric
        build = build_all_to_all if collective.name == "all_to_all" else build_hierarchy
        return build(self.name, self.hierarchy(shape, collective), count, collective)

    def hierarchy(self, shape: FabricKind, collective: Collective = ALL_REDUCE) -> Hierarchy:
        """Return the threads for vectors of any length; raise InputError if the fabric does not support it."""
        return _HIERARCHY[self.name](self, shape, collective)


_HIERARCHY: dict[str, Callable[[Algorithm, FabricKind, Collective], Hierarchy]] = {
    "hips": lambda options, shape, collective: hips.hierarchy(
        shape, options.exchange, options.one_way, collective
    ),
    "ring": lambda _, shape, __: ring.hierarchy(shape),
    "mesh": lambda options, shape, collective: mesh.hierarchy(shape, "full" in options.exchange, collective),
    "ps": lambda options, shape, collective: ps.hierarchy(shape, options.servers, collective),
}
NAMES = tuple(_HIERARCHY)
"""The names of all algorithms."""
