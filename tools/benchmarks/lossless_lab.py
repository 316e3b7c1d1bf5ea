# SPDX-License-Identifier: Apache-2.0
"""Labs with soft switches for a benchmark, destroyed when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hipsnet.topology import Fabric, Topology
from orchestrator import topology_file
from orchestrator.provision import provisioning, removal

_TEXT = """\
version: 1
name: {name}
fabric: {fabric}
link: {{rate: {rate}, mtu: {mtu}}}
{pfc}
lab: {{switch: lossless}}
"""


@contextmanager
def lossless_lab(
    fabric: str, rate: str, pfc: str = "pfc: {priorities: [3]}", mtu: int = 9000, name: str = "l"
) -> Iterator[tuple[Topology, Fabric, Path]]:
    """A provisioned lab and its file; `fabric` is a section of that, an empty `pfc` makes all traffic lossy."""
    with TemporaryDirectory(prefix="hipsnet-bench-") as folder:
        file = Path(folder) / "topology.yaml"
        whole_name = f"b{os.getpid():x}{name}"
        file.write_text(_TEXT.format(name=whole_name, fabric=fabric, rate=rate, pfc=pfc, mtu=mtu))
        topology, built = topology_file.load(file)
        try:
            provisioning.provision(topology, built, str(file), lambda _: lambda _: None)
            yield topology, built, file
        finally:
            removal.destroy(built.name)
