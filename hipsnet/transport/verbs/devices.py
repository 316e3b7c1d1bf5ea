# SPDX-License-Identifier: Apache-2.0
"""Which RDMA device, port and GID belong to an address: found in sysfs by netdev and IP, never by an index."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

from pyroute2 import IPRoute

from hipsnet.errors import TransportError

SYSFS = Path("/sys/class/infiniband")
ROCE_V2 = "RoCE v2"  # as drivers/infiniband/core/cache.c names it


@dataclass(frozen=True)
class Endpoint:
    """Where RoCEv2 leaves a machine: a GID of a device's port, and the netdev that it belongs to."""

    device: str
    port: int
    gid_index: int
    gid: IPv6Address
    netdev: str

    def __str__(self) -> str:
        return f"{self.device} port {self.port} ({self.netdev})"


def gid_of(address: str) -> IPv6Address:
    """The RoCEv2 GID of an IPv4 address."""
    return IPv6Address(f"::ffff:{address}")


def endpoint_of(address: str, sysfs: Path = SYSFS) -> Endpoint:
    """The endpoint of one of this machine's addresses; TransportError says what is missing."""
    netdev = _netdev_of(address)
    found = []
    for endpoint in endpoints(sysfs, netdev):
        if endpoint.netdev == netdev and endpoint.gid == gid_of(address):
            return endpoint
        found.append(endpoint)
    has = ", ".join(sorted({f"{e} {e.gid.ipv4_mapped or e.gid}" for e in found})) or "none"
    raise TransportError(
        f"no RDMA device has a RoCEv2 GID for {address} on {netdev}; found: {has}. "
        "`rdma link show` lists the devices and their netdevs: a card needs its driver with RoCE enabled, "
        f"any other interface `rdma link add rxe_{netdev} type rxe netdev {netdev}`"
    )


def endpoints(sysfs: Path = SYSFS, first: str = "") -> Iterator[Endpoint]:
    """Every RoCEv2 GID of this machine whose netdev is in this network namespace.

    Ports of the netdev `first` come first: a table may have 1024 entries, each with files of its own.
    """

    def is_later(port: Path) -> bool:
        return _text(port / "gid_attrs" / "ndevs" / "0") != first

    for port in sorted(sorted(sysfs.glob("*/ports/*")), key=is_later):
        for index in range(sum(1 for _ in (port / "gids").iterdir())):
            gid = _gid(port / "gids" / str(index))
            if gid is None or _text(port / "gid_attrs" / "types" / str(index)) != ROCE_V2:
                continue
            netdev = _text(port / "gid_attrs" / "ndevs" / str(index))
            if netdev:
                yield Endpoint(port.parents[1].name, int(port.name), index, gid, netdev)


def why_lost(endpoint: Endpoint, sysfs: Path = SYSFS) -> str:
    """Why connections of this endpoint cannot go on; empty while they can."""
    port = sysfs / endpoint.device / "ports" / str(endpoint.port)
    if not port.exists():
        return f"the RDMA device {endpoint.device} is gone (removed, or its driver reset it)"
    gid = _gid(port / "gids" / str(endpoint.gid_index))
    if gid != endpoint.gid:
        return (
            f"GID {endpoint.gid_index} of {endpoint} was {endpoint.gid} and is {gid or 'gone'}: "
            f"{endpoint.netdev} has lost its address"
        )
    return ""


def port_state(endpoint: Endpoint, sysfs: Path = SYSFS) -> str:
    """The port's state in the kernel's word: ACTIVE, DOWN, ...; GONE without the device."""
    text = _text(sysfs / endpoint.device / "ports" / str(endpoint.port) / "state")
    return text.partition(":")[2].strip() or "GONE"


def _netdev_of(address: str) -> str:
    with IPRoute() as netlink:
        for message in netlink.get_addr(family=socket.AF_INET):
            if message.get_attr("IFA_LOCAL") == address:
                (link,) = netlink.get_links(message["index"])
                return str(link.get_attr("IFLA_IFNAME"))
    raise TransportError(f"this machine has no address {address}; is the fabric provisioned?")


def _gid(file: Path) -> IPv6Address | None:
    text = _text(file)
    return IPv6Address(text) if text.strip("0:") else None


def _text(file: Path) -> str:
    """A file's content; empty where the kernel has none (an unused GID answers EINVAL)."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
