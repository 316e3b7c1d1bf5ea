# SPDX-License-Identifier: Apache-2.0
"""Fabrics and algorithms for the tests of schedules."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from hipsnet.collective.algorithms import Algorithm
from hipsnet.topology import Fabric, build, parse

BCUBES = ("bcube(3,2)", "bcube(2,3)", "bcube(4,1)", "bcube(3,3)", "bcube(4,2)")
TORUSES = ("torus(3,3)", "torus(4,4)", "torus(2,3,2)", "torus(2,2)", "torus(6)", "torus(5,2,4)", "torus(2,7)")
ROUTED = (
    *("fattree(9,1)", "fattree(9,2)", "fattree(5,3)", "fattree(2,1)"),
    *("leafspine(3,2)", "leafspine(1,3)", "dragonfly(3,2)"),
)


def text_of(shape: str) -> str:
    """The topology file of a shape.

    Shapes: `bcube(n,k)`, `torus(dim,...)`, `fattree(servers,nics)`, `leafspine(leaves,nics)`, `dragonfly(g,a)`.
    """
    kind, _, numbers = shape.rstrip(")").partition("(")
    a, *rest = (int(number) for number in numbers.split(","))
    sizes = {
        "bcube": f"n: {a}, levels: {rest[0] if rest else 1}",
        "torus": f"dims: {[a, *rest]}",
        "fattree": f"servers: {a}, nics: {rest[0] if rest else 1}",
        "leafspine": f"leaves: {a}, spines: 2, servers: 2, nics: {rest[0] if rest else 1}",
        "dragonfly": f"groups: {a}, routers: {rest[0] if rest else 2}, servers: 1, global_links: 1",
    }
    return f"version: 1\nname: demo\nfabric: {{kind: {kind}, {sizes[kind]}}}\n"


@cache
def fabric(shape: str) -> Fabric:
    """The fabric of a shape (`text_of`)."""
    return build(parse(text_of(shape), "topology.yaml"))


@st.composite
def algorithms(draw: st.DrawFn, made: Fabric, collective: str = "all_reduce") -> Algorithm:
    """Any algorithm that supports this fabric and collective, with any of its options but full."""
    names = ["ring", "mesh"] + ["hips"] * (made.shape.hips is not None)
    exchanges = ["mesh", "ring"]
    if collective in ("all_reduce", "barrier"):
        names.append("ps")
        exchanges.append("ps")
    name = draw(st.sampled_from(names))
    if name == "ps":
        return Algorithm("ps", servers=draw(st.integers(1, len(made.servers))))
    if name != "hips":
        return Algorithm(name)
    one = st.sampled_from(exchanges)
    exchange = draw(st.one_of(st.just(()), one.map(lambda name: (name,)), st.tuples(*[one] * len(made.dims))))
    one_way = made.kind == "torus" and "ring" in (exchange or ("ring",)) and draw(st.booleans())
    return Algorithm("hips", exchange, one_way)


def full(made: Fabric) -> Algorithm:
    """The algorithm with the fewest steps."""
    return Algorithm("mesh" if made.shape.hips is None else "hips", ("full",))


PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 31, 97, 101, 997, 4099)
counts = st.one_of(st.integers(0, 40), st.sampled_from(PRIMES), st.integers(0, 5000))
"""Vector lengths: none, one, fewer than servers, primes, any."""
