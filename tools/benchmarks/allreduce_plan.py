# SPDX-License-Identifier: Apache-2.0
"""The plan of the all-reduce benchmark: fabrics, contenders, sizes, and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KIB, MIB = 2**10, 2**20
By = Literal["hipsnet", "gloo", "mpi"]


@dataclass(frozen=True)
class Contender:
    """A contender: its fabric, the program, and the flags of `hipsnet run` where that is the program."""

    name: str
    fabric: str
    by: By = "hipsnet"
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bound:
    """A bound on `first`'s median time at one size: `at_most` times that of `second`.

    A `second` of None is the physical limit, "s" one second: `at_most` is a time then.
    """

    size_bytes: int
    first: str
    second: str | None
    at_most: float


@dataclass(frozen=True)
class Part:
    """Contenders that alternate on fabrics with one rate for all ports.

    `lossless`: the labs have soft switches, which count losses. `picture`: the part is drawn.
    """

    name: str
    rate: str
    contenders: tuple[Contender, ...]
    sizes_bytes: tuple[int, ...]
    bounds: tuple[Bound, ...] = ()
    lossless: bool = False
    picture: bool = False


FABRICS = {
    "bcube": "{kind: bcube, n: 3, levels: 2}",
    "bcube64": "{kind: bcube, n: 8, levels: 2}",
    "tree": "{kind: fattree, servers: 9, nics: 1}",
    "tree2": "{kind: fattree, servers: 9, nics: 2}",
    "torus": "{kind: torus, dims: [3, 3]}",
}
"""The fabric sections of the topology files: nine servers each, or 64."""

HIPS = Contender("hipsnet, BCube(3,2)", "bcube")
PIECES = Contender("hips", "bcube", flags=("--algorithm", "hips"))
WHOLE = Contender("hips/full", "bcube", flags=("--algorithm", "hips", "--exchange", "full"))
GLOO = Contender("Gloo, Fat-Tree, 1 NIC", "tree", "gloo")
MPI = Contender("Open MPI, Fat-Tree, 1 NIC", "tree", "mpi")
RING = Contender("ring, Fat-Tree, 1 NIC", "tree", flags=("--algorithm", "ring"))
MESH = Contender("mesh, Fat-Tree, 1 NIC", "tree", flags=("--algorithm", "mesh"))
RING2 = Contender("ring, Fat-Tree, 2 NICs", "tree2", flags=("--algorithm", "ring"))
TORUS = Contender("hipsnet, torus 3x3", "torus")
XDP = Contender("hipsnet, xdp", "bcube", flags=("--transport", "xdp"))
LARGE = Contender("hipsnet, BCube(8,2)", "bcube64")

MAIN = Part(
    "500",
    "500Mbit/s",
    (HIPS, GLOO, MPI, RING, MESH, RING2),
    (4, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB),
    (
        Bound(KIB, HIPS.name, MPI.name, 0.7),
        Bound(16 * KIB, HIPS.name, MPI.name, 0.5),
        Bound(64 * KIB, HIPS.name, MPI.name, 0.6),
        Bound(MIB, HIPS.name, MPI.name, 0.25),
        Bound(MIB, HIPS.name, GLOO.name, 0.42),
        Bound(16 * MIB, HIPS.name, None, 1.08),
        Bound(64 * MIB, HIPS.name, None, 1.06),
        Bound(64 * MIB, HIPS.name, GLOO.name, 0.5),
    ),
    picture=True,
)
CHOICE = Part(
    "auto",
    "500Mbit/s",
    (HIPS, PIECES, WHOLE),
    MAIN.sizes_bytes,
    tuple(Bound(size, HIPS.name, other.name, 1.1) for size in MAIN.sizes_bytes for other in (PIECES, WHOLE)),
)
SLOWER = Part("200", "200Mbit/s", (HIPS,), (64 * MIB,), (Bound(64 * MIB, HIPS.name, None, 1.025),))
UNLIMITED = Part(
    "unlimited", "unlimited", (HIPS, GLOO), (64 * MIB,), (Bound(64 * MIB, HIPS.name, GLOO.name, 0.85),)
)
RINGS = Part("torus", "250Mbit/s", (TORUS,), (16 * MIB, 64 * MIB), (Bound(64 * MIB, TORUS.name, None, 1.05),))
STACK = Part("xdp", "500Mbit/s", (XDP, HIPS), (KIB, 64 * KIB), (Bound(KIB, XDP.name, HIPS.name, 1.5),))
LOSSLESS = Part(
    "lossless",
    "100Mbit/s",
    (XDP,),
    (16 * MIB,),
    (Bound(16 * MIB, XDP.name, None, 1.05),),
    lossless=True,
)
GROWTH = Part(
    "64-50",
    "50Mbit/s",
    (LARGE,),
    (KIB, 64 * KIB, MIB, 16 * MIB),
    (Bound(KIB, LARGE.name, "s", 0.025), Bound(64 * KIB, LARGE.name, "s", 0.045)),
)
GROWTH_SLOW = Part("64-20", "20Mbit/s", (LARGE,), (16 * MIB,), (Bound(16 * MIB, LARGE.name, None, 1.1),))

PARTS = {
    part.name: part for part in (MAIN, CHOICE, SLOWER, UNLIMITED, RINGS, STACK, LOSSLESS, GROWTH, GROWTH_SLOW)
}
"""The parts by name, in the order in which they run."""

NEIGHBOUR_BYTES = 8 * MIB
"""The bound on the memory of a rank beyond its arrays, per neighbour, at 64 MiB."""


def topology_text(fabric: str, rate: str, lossless: bool = False) -> str:
    """The topology file of a fabric of the benchmark."""
    switches = "pfc: {priorities: [3]}\nlab: {switch: lossless}\n" if lossless else ""
    link = f"link: {{rate: {rate}, mtu: 9000}}\n"
    return f"version: 1\nname: bench-{fabric}\nfabric: {FABRICS[fabric]}\n{link}{switches}"


def rounds_of(size_bytes: int) -> tuple[int, int]:
    """Iterations in one turn, and warm-up iterations before them: small sizes are noisy and cheap."""
    return (3, 1) if size_bytes >= 4 * MIB else (20, 3)
