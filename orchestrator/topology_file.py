# SPDX-License-Identifier: Apache-2.0
"""Read a topology file from disk."""

from __future__ import annotations

from pathlib import Path

from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Topology, build, parse


def load(path: Path | str) -> tuple[Topology, Fabric]:
    """Return topology and fabric of a file; InputError if it cannot be read, TopologyError if it is wrong."""
    topology = read(path)
    return topology, build(topology)


def read(path: Path | str) -> Topology:
    """Return the topology of a file without building its fabric; raises as `load`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: the topology file cannot be read: {error.strerror}; "
            "`hipsnet init bcube --ports 3 --levels 2 > topology.yaml` writes one"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start}"
        ) from None
    return parse(text, str(path))
