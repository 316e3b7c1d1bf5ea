# SPDX-License-Identifier: Apache-2.0
"""Software RDMA devices (rdma_rxe) on a server's ports.

hipsnet's devices are named hips_<fabric>_<node>_p<port>. Devices with other names are never changed.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from pyroute2.netlink.exceptions import NetlinkError

from hipsnet.errors import CapabilityError, ConflictError
from hipsnet.node import namespace, nldev
from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import NodeConfig
from hipsnet.node.netlink import Netlink

SYSFS = Path("/sys/class/infiniband")
_ROCE_PORT = 4791
_MODULES = Path("/lib/modules")
_MODULE = Path("/sys/module/rdma_rxe")


def device_name(fabric: str, node: str, port: int) -> str:
    """The name of the device on a port, unique on the machine: RDMA names are not per namespace."""
    return f"{_prefix(fabric, node)}p{port}"


def _prefix(fabric: str, node: str) -> str:
    return f"hips_{fabric}_{node}_"


def read(fabric: str, node: str) -> tuple[dict[str, str], dict[str, str]]:
    """The devices that hipsnet added for a node, and other software devices.

    Both with the interface of each ("" for one of another network namespace).
    """
    ours, foreign = {}, {}
    for name, index in nldev.devices().items():
        if name.startswith(_prefix(fabric, node)):
            ours[name] = nldev.interface(index)
        elif (SYSFS / name / "parent").exists():  # only rxe has this file
            foreign[name] = nldev.interface(index)
    return ours, foreign


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Devices to remove, then those to add."""
    devices = {link.rxe: link.name for link in desired.links if link.rxe is not None}
    for device, link in sorted(actual.rxe.items()):
        if devices.get(device) != link:
            yield Change(desired.name, "rdma", "remove", device, f"rxe on {link}", value=(device, link))
    for device, link in devices.items():
        if actual.rxe.get(device) != link:
            yield Change(desired.name, "rdma", "add", device, "", f"rxe on {link}", (device, link))


def apply(context: Context, change: Change) -> None:
    """Add or remove one device. The kernel loads rdma_rxe for the first one; CapabilityError if it cannot."""
    device, link = change.value
    if change.action == "remove":
        nldev.remove(device)
        return
    try:
        nldev.add(device, "rxe", link)
    except (NetlinkError, OSError) as error:
        if _MODULE.is_dir():
            raise
        raise CapabilityError(
            f"{change.node}: the kernel did not load rdma_rxe; run: modprobe rdma_rxe"
        ) from error


def refuse_foreign(desired: NodeConfig, actual: Actual) -> None:
    """Raise ConflictError if a port already has a software device that hipsnet did not add for it."""
    others = {link: device for device, link in actual.foreign_rxe.items()}
    for link in desired.links:
        if link.rxe is not None and link.name in others:
            other = others[link.name]
            raise ConflictError(
                f"{desired.name}: {link.name} has the rxe device {other} already, which hipsnet did not add for "
                f"it; remove it (rdma link delete {other}), or set `roce: {{device: nic}}`"
            )


def require_rxe() -> None:
    """Raise CapabilityError, saying how to install it, if the running kernel does not have rdma_rxe."""
    release = platform.release()
    listed = (_text(_MODULES / release / name) for name in ("modules.dep", "modules.builtin"))
    if not _MODULE.is_dir() and not any("/rdma_rxe.ko" in text for text in listed):
        raise CapabilityError(
            f"`roce: {{device: rxe}}` requires rdma_rxe, which the running kernel {release} does not have: install "
            f"it (apt install linux-modules-extra-{release} on Ubuntu) and run `modprobe rdma_rxe`, or boot a "
            "kernel that has it (apt install linux-image-amd64)"
        )


def require_rxe_in_namespaces() -> None:
    """Raise CapabilityError if rxe works in the initial network namespace only, as in Linux 6.1.

    There a device can be added in another namespace, but RoCE's UDP port is not open in that namespace.
    """
    require_rxe()
    name = f"hipsnet-rxe-{os.getpid()}"
    try:
        namespace.create(name, "hipsnet probe")
        with namespace.inside(name), Netlink() as netlink:
            netlink.link("add", ifname="p0", kind="veth", peer={"ifname": "p1"})
            device = device_name("probe", str(os.getpid()), 0)
            nldev.add(device, "rxe", "p0")
            is_open = f":{_ROCE_PORT:04X} " in _text(Path("/proc/thread-self/net/udp"))
            nldev.remove(device)
    finally:
        namespace.delete(name)
    if not is_open:
        raise CapabilityError(
            "`roce: {device: rxe}` in a lab requires an rdma_rxe that works inside network namespaces; that of "
            f"Linux {platform.release()} works in the initial one only: let `nodes` name interfaces of this "
            "machine and provision them with --node, or set `roce: {device: nic}` and use another transport"
        )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
