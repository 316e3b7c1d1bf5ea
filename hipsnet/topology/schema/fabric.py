# SPDX-License-Identifier: Apache-2.0
"""`fabric`: the kinds of networks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hipsnet.topology.schema.section import Section


class BCube(Section):
    """BCube(n, levels): n^levels servers with one port per level, n-port switches in each level."""

    kind: Literal["bcube"]
    n: int = Field(ge=2, le=1024, description="ports of every switch = servers in every group")
    levels: int = Field(ge=1, le=16, description="levels of switches = ports of every server")


class Torus(Section):
    """A torus of any number of dimensions: servers on rings, no switches."""

    kind: Literal["torus"]
    dims: tuple[Annotated[int, Field(ge=2, le=1024)], ...] = Field(
        min_length=1,
        max_length=15,
        description="servers along each dimension, dimension 0 first; along a side of 2 there is one cable",
    )


class FatTree(Section):
    """A three-layer Fat-Tree of k-port switches that route."""

    kind: Literal["fattree"]
    servers: int = Field(ge=2, le=8192, description="number of servers")
    nics: int = Field(default=1, ge=1, le=16, description="ports of every server")
    k: Annotated[int, Field(ge=2, le=32, multiple_of=2)] | None = Field(
        default=None, description="ports of every switch; the smallest that fits unless given"
    )

    @property
    def ports_per_switch(self) -> int:
        """The given k, or the smallest even one whose k^3/4 host slots hold every NIC."""
        if self.k is not None:
            return self.k
        return next(k for k in range(2, 1 << 16, 2) if k**3 // 4 >= self.servers * self.nics)
