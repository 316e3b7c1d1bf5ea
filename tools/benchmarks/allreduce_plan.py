# SPDX-License-Identifier: Apache-2.0
"""The plan of the all-reduce benchmark: fabrics, contenders, sizes, and required ratios."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class Contender:
    """A contender: its fabric and its algorithm (None is Gloo)."""

    name: str
    fabric: str
    algorithm: str | None


@dataclass(frozen=True)
class Target:
    """A bound at one size: `first`'s median time over `second`'s (None: over the physical limit)."""

    size_bytes: int
    first: str
    second: str | None
    at_most: float


@dataclass(frozen=True)
class Part:
    """Contenders that alternate on fabrics with one rate for all ports."""

    name: str
    rate: str
    contenders: tuple[Contender, ...]
    sizes_bytes: tuple[int, ...]
    targets: tuple[Target, ...]


FABRICS = {
    "bcube": "{kind: bcube, n: 3, levels: 2}",
    "tree": "{kind: fattree, servers: 9, nics: 1}",
    "tree2": "{kind: fattree, servers: 9, nics: 2}",
    "torus": "{kind: torus, dims: [3, 3]}",
}
"""Nine servers each; the fabric section of their topology files."""

HIPS = Contender("HiPS, BCube(3,2)", "bcube", "hips")
GLOO = Contender("Gloo, Fat-Tree, 1 NIC", "tree", None)
RING = Contender("ring, Fat-Tree, 1 NIC", "tree", "ring")
MESH = Contender("mesh, Fat-Tree, 1 NIC", "tree", "mesh")
RING2 = Contender("ring, Fat-Tree, 2 NICs", "tree2", "ring")
TORUS = Contender("HiPS, Torus 3x3", "torus", "hips")

SHAPED = Part(
    "shaped",
    "500Mbit/s",
    (HIPS, GLOO, RING, MESH, RING2),
    (KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB),
    (
        Target(64 * MIB, HIPS.name, None, 1.08),
        Target(64 * MIB, HIPS.name, GLOO.name, 0.54),
        Target(16 * MIB, HIPS.name, GLOO.name, 0.56),
        Target(MIB, HIPS.name, GLOO.name, 0.75),
        Target(KIB, HIPS.name, GLOO.name, 0.2),
    ),
)
UNSHAPED = Part(
    "unshaped", "unlimited", (HIPS, GLOO), (64 * MIB,), (Target(64 * MIB, HIPS.name, GLOO.name, 1.5),)
)
TWO_WAY = Part(
    "torus", "250Mbit/s", (TORUS,), (16 * MIB, 64 * MIB), (Target(64 * MIB, TORUS.name, None, 1.15),)
)


def topology_text(fabric: str, rate: str) -> str:
    """The topology file of a fabric of the benchmark."""
    return f"version: 1\nname: bench-{fabric}\nfabric: {FABRICS[fabric]}\nlink: {{rate: {rate}, mtu: 9000}}\n"


def rounds_of(size_bytes: int) -> tuple[int, int]:
    """Iterations in one turn, and warm-up iterations before them: small sizes are noisy and cheap."""
    return (3, 1) if size_bytes >= 4 * MIB else (20, 3)
