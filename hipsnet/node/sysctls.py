# SPDX-License-Identifier: Apache-2.0
"""Kernel settings under /proc/sys/net: which a node needs, reading and writing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from hipsnet.errors import CapabilityError
from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import NodeConfig

_ROOT = Path("/proc/sys")

FORWARDING = {"net/ipv4/ip_forward": "1"}
"""The slow path: XDP passes up what needs an ICMP answer. Comes first, for it resets other settings."""

SERVER = {
    **FORWARDING,
    # A path's answer may come back by another port.
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/all/accept_redirects": "0",
}

ROUTER = {
    **FORWARDING,
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    # Layer 4 hash: the connections of one pair of servers spread over equal routes.
    "net/ipv4/fib_multipath_hash_policy": "1",
}

BRIDGE = {
    # A switch filters nothing: where br_netfilter is loaded (Docker does it), every frame would take that way.
    f"net/bridge/bridge-nf-call-{tables}": "0"
    for tables in ("arptables", "iptables", "ip6tables")
}

LAB_BUFFERS = {
    # Room for what a job has in flight on a fast cable; a host's own tuning is left alone. A receiver has it from
    # the first byte: windows that grow cost the first synchronizations of 64 MiB among nine servers 6 %.
    "net/ipv4/tcp_rmem": "4096 8388608 33554432",
    "net/ipv4/tcp_wmem": "4096 65536 16777216",
}


def of_port(link: str) -> dict[str, str]:
    """Settings of one routed port: it answers ARP for its own address only, and speaks no IPv6 on its own."""
    return {
        f"net/ipv4/conf/{link}/rp_filter": "0",
        f"net/ipv4/conf/{link}/send_redirects": "0",
        f"net/ipv4/conf/{link}/accept_redirects": "0",
        f"net/ipv4/conf/{link}/arp_ignore": "1",
        f"net/ipv4/conf/{link}/arp_announce": "2",
        **quiet(link),
    }


def from_ourselves(link: str) -> dict[str, str]:
    """Take packets, and answer ARP, of addresses that are this node's too: it plays their server as well."""
    return {f"net/ipv4/conf/{link}/accept_local": "1"}


def quiet(link: str) -> dict[str, str]:
    """No IPv6 on a port: no router solicitations and no address detection among the frames."""
    return {f"net/ipv6/conf/{link}/disable_ipv6": "1"}


def read(keys: Iterable[str]) -> dict[str, str]:
    """The values of settings, their white space made single; those that do not exist are left out."""
    found = {}
    for key in keys:
        try:
            found[key] = " ".join((_ROOT / key).read_text().split())
        except FileNotFoundError:
            continue
    return found


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Settings that have to be written; one that the kernel does not have (no IPv6) is no difference."""
    missing = [link.name for link in desired.links if link.name not in actual.links]
    for key, value in desired.sysctls.items():
        now = (actual.sysctls or {}).get(key)
        if now is not None and now != value:
            yield Change(desired.name, "sysctl", "change", key, now, value, value)
        elif now is None and (actual.sysctls is None or any(f"/conf/{name}/" in key for name in missing)):
            yield Change(desired.name, "sysctl", "add", key, "", value, value)


def apply(context: Context, change: Change) -> None:
    """Write one setting."""
    write({change.subject: change.value})


def write(settings: dict[str, str]) -> None:
    """Write settings, passing over those that do not exist. Raises CapabilityError if it is not allowed."""
    for key, value in settings.items():
        try:
            (_ROOT / key).write_text(value)
        except FileNotFoundError:
            continue
        except PermissionError:
            raise CapabilityError(
                f"cannot set {key} to {value}: run as root, with /proc/sys writable"
            ) from None
