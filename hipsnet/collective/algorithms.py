# SPDX-License-Identifier: Apache-2.0
"""The algorithms by name, with their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hipsnet.collective import hips, mesh, ps, ring
from hipsnet.collective.schedule import Schedule
from hipsnet.errors import InputError
from hipsnet.topology import Fabric


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
        if self.name not in _BUILD:
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
        return _BUILD[self.name](self, fabric, count)


_BUILD: dict[str, Callable[[Algorithm, Fabric, int], Schedule]] = {
    "hips": lambda options, fabric, count: hips.build(fabric, count, options.exchange, options.one_way),
    "ring": lambda _, fabric, count: ring.build(fabric, count),
    "mesh": lambda _, fabric, count: mesh.build(fabric, count),
    "ps": lambda options, fabric, count: ps.build(fabric, count, options.servers),
}
NAMES = tuple(_BUILD)
"""The names of all algorithms."""
