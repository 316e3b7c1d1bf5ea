# SPDX-License-Identifier: Apache-2.0
"""Reading a topology file from disk."""

from __future__ import annotations

from pathlib import Path

from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Topology, build, parse


def load(path: Path | str) -> tuple[Topology, Fabric]:
    """Return a file's topology and fabric; InputError: it cannot be read, TopologyError: it is wrong."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: wanted a topology file, found: {error.strerror}; "
            "`hipsnet init bcube --ports 3 --levels 2 > topology.yaml` writes one"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: wanted text in UTF-8, found byte {error.object[error.start]:#04x}"
        ) from None
    topology = parse(text, str(path))
    return topology, build(topology)
