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
"""Bytes reserved for headers: RXE_MAX_HDR_LENGTH by rxe, iboe_get_mtu (include/rdma/ib_addr.h) by cards."""


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
    """The RDMA devices of a server's ports; `lacking` are the ports without a usable one."""

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
    """The active MTU, derived from the interface's MTU as drivers do; sysfs does not show it."""
    if not gids:
        return None
    payload = int((_NETDEVS / gids[0].netdev / "mtu").read_text())
    payload -= _HEADERS_RXE if (device / "parent").exists() else _HEADERS
    return next((size for size in _IB_MTUS if size <= payload), None)


def servers(topology: Topology, fabric: Fabric, node: str | None, host: str) -> Iterator[ServerPorts]:
    """The RDMA devices of the ports of `node`, of the servers on `host`, or of all servers of a lab.

    Raises InputError if the file does not say which servers are this machine's, or the lab is not provisioned.
    """
    for name in _here(topology, fabric, node, host):
        config = server_config(topology, fabric, find_server(fabric, name))
        inside = namespace_name(fabric.name, name) if topology.nodes == "lab" else None
        if inside is not None and inside not in namespace.names():
            raise InputError(f"{fabric.name}: {name} is not provisioned; run `hipsnet provision` first")
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
            f"{fabric.name}: no server has the host {host}; name the server of this machine: --node NAME"
        )
    return mine


def _server_ports(config: NodeConfig) -> ServerPorts:
    """RDMA netlink maps devices to interfaces, because it respects network namespaces; sysfs does not."""
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
