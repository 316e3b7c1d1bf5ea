# SPDX-License-Identifier: Apache-2.0
"""The path of a connection's frames: egress interface, MAC of the next hop, packet size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from hipsnet.errors import TransportError
from hipsnet.transport.interface import Peer

HEADERS_BYTES = 20 + 8 + 12 + 16 + 4 + 4
"""The headers and trailer of a packet, at most: IPv4, UDP, BTH, RETH, immediate, ICRC."""

PATH_MTUS = (4096, 2048, 1024, 512, 256)
_USABLE = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80  # reachable, stale, delay, probe, no ARP, permanent


@dataclass(frozen=True)
class Interface:
    """An interface of this namespace."""

    index: int
    name: str
    mac: str
    mtu: int


@dataclass(frozen=True)
class Path:
    """Through interface `ifindex`, with MTU `mtu`, to the next hop with `mac`."""

    ifindex: int
    mac: str
    mtu: int


def interface_of(netlink: IPRoute, address: str) -> Interface:
    """The interface that has an address. Raises TransportError if none has."""
    for found in netlink.get_addr(address=address):
        (link,) = netlink.get_links(found["index"])
        return Interface(
            link["index"],
            link.get_attr("IFLA_IFNAME"),
            link.get_attr("IFLA_ADDRESS"),
            link.get_attr("IFLA_MTU"),
        )
    raise TransportError(f"no interface here has the address {address}; is the fabric provisioned?")


def path_to(netlink: IPRoute, peer: Peer) -> Path:
    """The path to a peer by the kernel's routes and neighbour table; a connection to it must exist already.

    Raises TransportError if there is none.
    """
    try:
        (route,) = netlink.route("get", dst=peer.remote_address, src=peer.local_address)
    except NetlinkError as error:
        raise TransportError(f"no route from {peer.local_address} to {peer}: {error}") from error
    ifindex = route.get_attr("RTA_OIF")
    hop = route.get_attr("RTA_GATEWAY") or peer.remote_address
    (link,) = netlink.get_links(ifindex)
    return Path(ifindex, _mac_of(netlink, ifindex, hop, peer), link.get_attr("IFLA_MTU"))


def _mac_of(netlink: IPRoute, ifindex: int, hop: str, peer: Peer) -> str:
    for entry in netlink.get_neighbours(ifindex=ifindex):
        if entry.get_attr("NDA_DST") == hop and _is_usable(entry):
            mac: str = entry.get_attr("NDA_LLADDR")
            return mac
    raise TransportError(
        f"the MAC of {hop}, the next hop to {peer}, is not in the kernel's neighbour table (ip neigh); "
        "run `hipsnet provision`, then `hipsnet ping` to find what is wrong"
    )


def _is_usable(entry: Any) -> bool:
    return bool(entry["state"] & _USABLE and entry.get_attr("NDA_LLADDR"))


def path_mtu(interface_mtu: int) -> int:
    """The largest payload of a packet whose frame fits. Raises TransportError if none does."""
    for payload in PATH_MTUS:
        if payload + HEADERS_BYTES <= interface_mtu:
            return payload
    raise TransportError(f"requires an MTU of at least {PATH_MTUS[-1] + HEADERS_BYTES}, not {interface_mtu}")
