# SPDX-License-Identifier: Apache-2.0
"""Kernel settings below /proc/sys/net: those that a node needs, and how to read and write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hipsnet.errors import CapabilityError, InputError
from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import NodeConfig

_ROOT = Path("/proc/sys")
_KEY = re.compile(r"net(/[^/\s]+)+")

FORWARDING = {"net/ipv4/ip_forward": "1"}
"""The slow path: XDP passes up what needs an ICMP answer. Comes first, because the kernel resets others with it."""

LAB_SERVER = {
    **FORWARDING,
    # The answer to a packet may come back by another port.
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/all/accept_redirects": "0",
}

ROUTER = {
    **FORWARDING,
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    # Layer 4 hash: connections between the same servers spread over equal routes.
    "net/ipv4/fib_multipath_hash_policy": "1",
}

BRIDGE = {
    # A switch filters nothing; with br_netfilter loaded (by Docker) every frame would pass through iptables.
    f"net/bridge/bridge-nf-call-{tables}": "0"
    for tables in ("arptables", "iptables", "ip6tables")
}

LAB_BUFFERS = {
    # Enough for the bytes in flight on a fast cable; a host's own tuning is left alone. A receiver has it from the
    # first byte: growing windows cost 6 % of the first synchronizations of 64 MiB among nine servers.
    "net/ipv4/tcp_rmem": "4096 8388608 33554432",
    "net/ipv4/tcp_wmem": "4096 65536 16777216",
}


def sender(queued_bytes: int, unsent_bytes: int) -> dict[str, str]:
    """How much a TCP connection may have in the queue of a port, and in its socket before that queue."""
    return {
        "net/ipv4/tcp_limit_output_bytes": str(queued_bytes),
        "net/ipv4/tcp_notsent_lowat": str(unsent_bytes),
    }


def of_port(link: str) -> dict[str, str]:
    """Settings of a routed port: it answers ARP for its own address only, and sends nothing by IPv6 on its own."""
    return {
        f"net/ipv4/conf/{link}/rp_filter": "0",
        f"net/ipv4/conf/{link}/send_redirects": "0",
        f"net/ipv4/conf/{link}/accept_redirects": "0",
        f"net/ipv4/conf/{link}/arp_ignore": "1",
        f"net/ipv4/conf/{link}/arp_announce": "2",
        **quiet(link),
    }


def of_host_port(link: str) -> dict[str, str]:
    """Settings of a host's port; the host's other interfaces keep theirs, and so does `all`.

    The kernel takes the larger rp_filter of `all` and the port: 2 (loose) is in force whatever `all` says, and
    drops nothing here, because every address of the fabric has a route. A packet is forwarded if the port that it
    arrives by forwards. A forwarding port ignores redirects if it or `all` does. It sends them if `all` does: the
    ports of other servers ignore them, and XDP, which forwards nearly everything, sends none.
    """
    return {
        **of_port(link),
        f"net/ipv4/conf/{link}/rp_filter": "2",
        f"net/ipv4/conf/{link}/forwarding": "1",
    }


def from_ourselves(link: str) -> dict[str, str]:
    """Accept packets, and answer ARP, from addresses of this machine: it plays several servers."""
    return {f"net/ipv4/conf/{link}/accept_local": "1"}


def quiet(link: str) -> dict[str, str]:
    """No IPv6 on a port: no router solicitations and no address detection among the frames."""
    return {f"net/ipv6/conf/{link}/disable_ipv6": "1"}


def read(keys: Iterable[str]) -> dict[str, str]:
    """The values of settings with single spaces; settings that do not exist are left out.

    Raises InputError for a key outside `net/`.
    """
    found = {}
    for key in keys:
        try:
            found[key] = " ".join(_path(key).read_text().split())
        except FileNotFoundError:
            continue
    return found


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Settings to write; one that the kernel lacks (without IPv6) is no difference."""
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


def require_key(key: str) -> None:
    """Raise InputError for a key that is not below `net/`: hipsnet changes no other settings of the kernel."""
    if not _KEY.fullmatch(key) or {".", ".."} & set(key.split("/")):
        raise InputError(f"sysctl {key!r} is not below net/; hipsnet reads and writes no other sysctls")


def _path(key: str) -> Path:
    require_key(key)
    return _ROOT / key


def write(settings: dict[str, str]) -> None:
    """Write settings, except those that do not exist.

    Raises CapabilityError without the permission, InputError for a key outside `net/`.
    """
    for key, value in settings.items():
        try:
            _path(key).write_text(value)
        except FileNotFoundError:
            continue
        except PermissionError:
            raise CapabilityError(
                f"cannot set {key} to {value}: run as root, with /proc/sys writable"
            ) from None
