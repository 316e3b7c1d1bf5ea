# SPDX-License-Identifier: Apache-2.0
"""Topology: what a network looks like, as pure data and mathematics."""

from hipsnet.topology.building import build, find_server
from hipsnet.topology.fabric import Fabric, Hop, Link, NextHop, Path, Port, Route, Server, Switch
from hipsnet.topology.kinds import KINDS, FabricKind, HipsLevels
from hipsnet.topology.loading import parse
from hipsnet.topology.routing import paths, routes
from hipsnet.topology.schema import Topology

__all__ = [
    "KINDS",
    "Fabric",
    "FabricKind",
    "HipsLevels",
    "Hop",
    "Link",
    "NextHop",
    "Path",
    "Port",
    "Route",
    "Server",
    "Switch",
    "Topology",
    "build",
    "find_server",
    "parse",
    "paths",
    "routes",
]
