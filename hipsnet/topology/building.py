# SPDX-License-Identifier: Apache-2.0
"""Builds the fabric of a topology, and finds servers by name."""

from __future__ import annotations

import difflib

from hipsnet.errors import InputError
from hipsnet.topology.addressing import numbering
from hipsnet.topology.fabric import Fabric, Server
from hipsnet.topology.schema import Topology


def build(topology: Topology) -> Fabric:
    """Return the fabric of a topology that `parse` has accepted."""
    return topology.fabric.build(numbering(topology))


def find_server(fabric: Fabric, text: str) -> Server:
    """Return the server called `text`, with or without its leading `s`; InputError lists the servers."""
    for name in (text, f"s{text}"):
        node = fabric.nodes.get(name)
        if isinstance(node, Server):
            return node
    names = [server.name for server in fabric.servers]
    shown = names if len(names) <= 16 else [*names[:8], "...", *names[-2:]]
    near = difflib.get_close_matches(text, names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InputError(
        f"no server {text!r} in {fabric.name}, which has {len(names)} servers, {', '.join(shown)}{hint}"
    )
