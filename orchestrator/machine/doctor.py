# SPDX-License-Identifier: Apache-2.0
"""Report what this machine supports, by trying each feature, and how to install what is missing."""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import re
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

import kernel
from hipsnet.errors import CapabilityError, HipsnetError
from hipsnet.node import bpf, dcb, namespace, pins, programs
from hipsnet.node.headers import find_headers
from hipsnet.topology import Fabric, Topology
from orchestrator.lab import delay_line, soft_switch
from orchestrator.machine import rdma_devices

_OLDEST_KERNEL = (5, 18)
_CAPABILITIES = {
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_SYS_ADMIN": 21,
    "CAP_BPF": 39,
}  # linux/capability.h
_AS_ROOT, _NOT_TRIED = "sudo hipsnet doctor", "not tried: needs root"
_XDP, _HTB = "XDP native, MTU 9000", "HTB"
_PASS = struct.pack("<BBhi", 0xB7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0)
"""An XDP program: return XDP_PASS."""


@dataclass(frozen=True)
class Check:
    """The result for one requirement. A lab needs all `needed` ones; `fix` says how to meet it, empty if ok."""

    name: str
    ok: bool
    needed: bool
    found: str
    fix: str = ""


def examine() -> tuple[Check, ...]:
    """Check every requirement; network features are tried in a temporary namespace.

    Compiles the programs if this machine has no compiled ones (takes some seconds).
    """
    checks = [_kernel(), _capabilities(), _bpffs(), _libbpf(), _bcc(), _headers(), _programs()]
    checks += [_delay_line(), _soft_switch(), *_network()]
    return (*checks, _af_xdp(), _rdma(), _lossless_nics())


def examine_ports(topology: Topology, fabric: Fabric, node: str | None) -> tuple[Check, ...]:
    """Check that each of this machine's ports in a file has an RDMA device; one check per server.

    Raises InputError if the file does not say which servers are this machine's.
    """
    asked = topology.roce.device == "rxe"
    fix = (
        "run `hipsnet provision`"
        if asked
        else "plug in a RoCE NIC, or write `roce: {device: rxe}`, then provision"
    )
    try:
        found = tuple(rdma_devices.servers(topology, fabric, node, platform.node()))
    except CapabilityError:
        owner = node or "the lab"
        return (_check(f"RDMA of {owner}", False, _NOT_TRIED, f"{_AS_ROOT} FILE", needed=False),)
    return tuple(
        _check(f"RDMA of {ports.server}", not ports.lacking, ", ".join(ports.found), fix, needed=False)
        for ports in found
    )


def can_run_lab(checks: tuple[Check, ...]) -> bool:
    """Whether this machine meets every requirement of the lab."""
    return all(check.ok for check in checks if check.needed)


def _kernel() -> Check:
    release = platform.release()
    found = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    oldest = ".".join(map(str, _OLDEST_KERNEL))
    fix = f"apt install linux-image-amd64, then reboot ({oldest} or newer: XDP on frames of several buffers)"
    return _check("kernel", found >= _OLDEST_KERNEL, release, fix)


def _capabilities() -> Check:
    status = Path("/proc/self/status").read_text()
    effective = int(re.search(r"^CapEff:\s*(\w+)", status, re.MULTILINE)[1], 16)  # type: ignore[index]
    lacking = [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    found = f"without {', '.join(lacking)}" if lacking else ", ".join(_CAPABILITIES)
    return _check("capabilities", not lacking, found, _AS_ROOT)


def _bpffs() -> Check:
    mounted = pins.is_mounted()
    found = f"on {pins.BPFFS}" if mounted else "not mounted (provision mounts it)"
    return _check("bpffs", mounted, found, f"mount -t bpf bpf {pins.BPFFS}", needed=False)


def _libbpf() -> Check:
    try:
        bpf.libbpf()
    except HipsnetError as error:
        return _check("libbpf", False, str(error), "apt install libbpf1")
    return _check("libbpf", True, "libbpf.so.1", "")


def _bcc() -> Check:
    fix = "apt install python3-bpfcc, then tools/setup"
    if importlib.util.find_spec("bcc") is None:
        return _check("bcc", False, f"not installed for {sys.executable}", fix)
    try:
        return _check("bcc", True, metadata.version("bcc"), fix)
    except metadata.PackageNotFoundError:
        return _check("bcc", True, "of unknown version", fix)


def _headers() -> Check:
    headers = find_headers()
    if headers is None:
        found = "none in /lib/modules or /usr/src"
        return _check("kernel headers", False, found, "apt install linux-headers-amd64")
    origin = (
        "the running kernel's"
        if headers.running
        else "the distribution's; the running kernel has none of its own"
    )
    return _check("kernel headers", True, f"{headers.build} ({origin})", "")


def _programs() -> Check:
    try:
        compiled = programs.ensure_programs()
    except (HipsnetError, OSError) as error:
        return _check("kernel programs", False, _first_line(error), "fix bcc and the kernel headers first")
    how = "compiled now, cached" if compiled else "cached"
    return _check("kernel programs", True, f"{how} in {kernel.cache_folder()}", "")


def _delay_line() -> Check:
    try:
        found = str(delay_line.program())
    except (HipsnetError, OSError) as error:
        return _check("delay line", False, _first_line(error), "apt install gcc libc6-dev", needed=False)
    return _check("delay line", True, f"for delays of links: {found}", "", needed=False)


def _soft_switch() -> Check:
    try:
        found = str(soft_switch.program())
    except (HipsnetError, OSError) as error:
        fix = "apt install gcc libc6-dev libxdp-dev libbpf-dev"
        return _check("soft switch", False, _first_line(error), fix, needed=False)
    return _check("soft switch", True, f"for lossless switches: {found}", "", needed=False)


def _network() -> Iterator[Check]:
    """The checks that run in a temporary network namespace."""
    try:
        with _scratch() as near:
            yield _check("network namespaces", True, "made and entered", "")
            yield _check("veth and bridge", True, "made", "")
            yield _native_xdp(near)
            yield _htb(near)
    except (CapabilityError, PermissionError) as error:
        yield _check("network namespaces", False, _first_line(error), _AS_ROOT)
        for name in ("veth and bridge", _XDP, _HTB):
            yield _check(name, False, _NOT_TRIED, _AS_ROOT)
    except HipsnetError as error:
        yield _check("network namespaces", False, str(error), _AS_ROOT)
    except (NetlinkError, OSError) as error:
        yield _check(
            "veth and bridge",
            False,
            _first_line(error),
            _kernel_part("veth bridge", "CONFIG_VETH, CONFIG_BRIDGE"),
        )


@contextmanager
def _scratch() -> Iterator[int]:
    """Enter a new namespace with a veth pair and a bridge; yields the index of one end of the pair."""
    name = f"hipsnet-doctor-{os.getpid()}"
    try:
        namespace.create(name, "hipsnet doctor")
        with namespace.inside(name), IPRoute() as netlink:
            netlink.link("add", ifname="near", kind="veth", mtu=9000, peer={"ifname": "far", "mtu": 9000})
            netlink.link("add", ifname="bridge", kind="bridge")
            (near,) = netlink.link_lookup(ifname="near")
            netlink.link("set", index=near, state="up")
            yield near
    finally:
        namespace.delete(name)


def _native_xdp(ifindex: int) -> Check:
    fix = "boot a kernel of 5.18 or newer with CONFIG_BPF_SYSCALL and CONFIG_VETH"
    try:
        with bpf.closing(bpf.load_xdp("doctor", _PASS)) as program:
            bpf.attach(ifindex, program)
    except HipsnetError as error:
        return _check(_XDP, False, _first_line(error), fix)
    return _check(_XDP, True, "attached to veth", fix)


def _htb(ifindex: int) -> Check:
    fix = _kernel_part("sch_htb", "CONFIG_NET_SCH_HTB")
    try:
        with IPRoute() as netlink:
            netlink.tc("add", "htb", ifindex, 0x480000, default=1)
    except NetlinkError as error:
        return _check(_HTB, False, f"{os.strerror(error.code)}; for rates of links", fix)
    return _check(_HTB, True, "for rates of links", fix)


def _af_xdp() -> Check:
    fix = "boot a kernel with CONFIG_XDP_SOCKETS"
    try:
        socket.socket(getattr(socket, "AF_XDP", 44), socket.SOCK_RAW, 0).close()
    except PermissionError:
        return _check("AF_XDP", False, _NOT_TRIED, _AS_ROOT, needed=False)
    except OSError as error:
        return _check("AF_XDP", False, _first_line(error), fix, needed=False)
    return _check("AF_XDP", True, "socket opened", fix, needed=False)


def _rdma() -> Check:
    devices = rdma_devices.devices()
    software = f"{_kernel_part('rdma_rxe', 'CONFIG_RDMA_RXE')}; rdma link add rxe0 type rxe netdev NIC"
    fix = f"plug in a RoCE NIC, or in software: {software}"
    found = "; ".join(map(str, devices)) or "none"
    return _check("RDMA devices", bool(devices), found, fix, needed=False)


def _lossless_nics() -> Check:
    """The NICs whose driver supports PFC configuration (DCB)."""
    cards = sorted(path.parent.name for path in Path("/sys/class/net").glob("*/device"))
    classes = {card: count for card in cards if (count := _ask_dcb(card))}
    found = ", ".join(f"{card} ({count} lossless classes)" for card, count in classes.items())
    asked = f"none of {', '.join(cards)}" if cards else "no card"
    fix = "plug in a NIC whose driver has DCB (mlx5, ice, bnxt, qede); only lossless RoCE on hosts needs it"
    return _check("DCB NICs", bool(classes), found or asked, fix, needed=False)


def _ask_dcb(card: str) -> int | None:
    try:
        return dcb.pfc_classes(card)
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.EPERM):
            return None
        raise


def _kernel_part(modules: str, options: str) -> str:
    """The command that loads a kernel feature; a kernel without loadable modules must be replaced."""
    if Path("/lib/modules", platform.release()).is_dir():
        return f"modprobe -a {modules}"
    return f"boot a kernel with {options}"


def _check(name: str, ok: bool, found: str, fix: str, needed: bool = True) -> Check:
    return Check(name, ok, needed, found, "" if ok else fix)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
