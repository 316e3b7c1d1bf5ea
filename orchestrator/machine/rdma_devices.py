# SPDX-License-Identifier: Apache-2.0
"""The RDMA devices of this machine, and those of a topology's ports, for `doctor`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hipsnet.errors import InputError
from hipsnet.node import namespace, nldev
from hipsnet.node.derive import server_config
from hipsnet.node.desired import NodeConfig
from hipsnet.topology import Fabric, Topology, find_server
from hipsnet.transport.verbs.devices import SYSFS, Endpoint, endpoints, gid_of
from orchestrator.lab.namespaces import namespace_name

_NETDEVS = Path("/sys/class/net")
_IB_MTUS = (4096, 2048, 1024, 512, 256)
_HEADERS_RXE, _HEADERS = 80, 96
"""What a driver leaves for headers: RXE_MAX_HDR_LENGTH of rxe, iboe_get_mtu (include/rdma/ib_addr.h) of cards."""


@dataclass(frozen=True)
class Device:
    """An RDMA device with its RoCEv2 GIDs that belong to this network namespace."""

    name: str
    gids: tuple[Endpoint, ...]
    mtu: int | None

    def __str__(self) -> str:
        if not self.gids:
            return f"{self.name}: no RoCEv2 GID in this network namespace"
        gids = ", ".join(f"{found.gid_index}: {found.gid.ipv4_mapped or found.gid}" for found in self.gids)
        return f"{self.name} on {self.gids[0].netdev}: MTU {self.mtu or 'none fits'}, GIDs {gids}"


@dataclass(frozen=True)
class ServerPorts:
    """The ports of a server: what each has for RDMA, and those that have nothing that can be used."""

    server: str
    found: tuple[str, ...]
    lacking: tuple[str, ...]


def devices(sysfs: Path = SYSFS) -> tuple[Device, ...]:
    """All RDMA devices, by name."""
    gids: dict[str, list[Endpoint]] = defaultdict(list)
    for endpoint in endpoints(sysfs):
        gids[endpoint.device].append(endpoint)
    names = sorted(path.name for path in sysfs.iterdir()) if sysfs.is_dir() else []
    return tuple(Device(name, tuple(gids[name]), _mtu(sysfs / name, gids[name])) for name in names)


def _mtu(device: Path, gids: list[Endpoint]) -> int | None:
    """The active MTU, as drivers derive it from the interface's: sysfs has none."""
    if not gids:
        return None
    room = int((_NETDEVS / gids[0].netdev / "mtu").read_text())
    room -= _HEADERS_RXE if (device / "parent").exists() else _HEADERS
    return next((size for size in _IB_MTUS if size <= room), None)


def servers(topology: Topology, fabric: Fabric, node: str | None, host: str) -> Iterator[ServerPorts]:
    """What the ports of this machine's part of a file have: of `node`, of the servers on `host`, of the lab's.

    Raises InputError if the file does not tell which part that is, or the lab is not there.
    """
    for name in _here(topology, fabric, node, host):
        config = server_config(topology, fabric, find_server(fabric, name))
        inside = namespace_name(fabric.name, name) if topology.nodes == "lab" else None
        if inside is not None and inside not in namespace.names():
            raise InputError(f"{name} of {fabric.name} wanted, not found; run `hipsnet provision` first")
        with namespace.inside(inside):
            yield _server_ports(config)


def _here(topology: Topology, fabric: Fabric, node: str | None, host: str) -> list[str]:
    if node is not None:
        return [find_server(fabric, node).name]
    if topology.nodes == "lab":
        return [server.name for server in fabric.servers]
    mine = [name for name, found in topology.nodes.items() if found.host == host]
    if not mine:
        raise InputError(
            f"{fabric.name}: no server on the host {host}; name the one that it plays: --node NAME"
        )
    return mine


def _server_ports(config: NodeConfig) -> ServerPorts:
    """Who is on which interface comes from RDMA netlink, which knows the network namespaces."""
    device_on = {nldev.interface(index): name for name, index in nldev.devices().items()}
    gids = {(found.netdev, found.gid) for found in endpoints()}
    found, lacking = [], []
    for port in config.ports:
        device = device_on.get(port.name)
        usable = device and any((port.name, gid_of(str(address.ip))) in gids for address in port.addresses)
        if not usable:
            lacking.append(port.name)
        has = device or "none"
        found.append(
            f"{port.name}: {has}" if usable or not device else f"{port.name}: {has}, no GID of its address"
        )
    return ServerPorts(config.name, tuple(found), tuple(lacking))
