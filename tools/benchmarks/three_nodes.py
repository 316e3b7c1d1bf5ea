# SPDX-License-Identifier: Apache-2.0
"""A path of three nodes in namespaces: generator, router (forwarding by XDP or by the kernel), sink.

Both ways get the same frames from the same generator (the kernel's test-run, sending live frames) and are
counted by the same sink. Only the router differs: the forwarding program with ip_forward off; or no program,
ip_forward on, and GRO, which is the kernel's fastest way for frames that come in by redirect.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Literal

from pyroute2 import IPRoute

import kernel
from hipsnet.node import bpf, namespace, pins, programs
from hipsnet.node.attaching import attach_forwarding, detach, mac_bytes
from hipsnet.node.desired import TableEntry
from hipsnet.node.forwarding import fill_table, possible_cpus
from hipsnet.node.testrun import run_live

Way = Literal["xdp", "kernel"]
MTU = 9000
BATCH = 64
"""The test-run sends whole batches of this many frames."""
_SETTLE_S = 0.05
_HEADERS_BYTES = 4 * kernel.constant("FRESH_WORDS")


@dataclass(frozen=True)
class End:
    """An end of a cable."""

    node: str
    name: str
    mac: str
    address: IPv4Address


OUT = End("generator", "g0", "02:48:00:00:00:01", IPv4Address("10.0.0.1"))
INGRESS = End("router", "p0", "02:48:00:00:00:02", IPv4Address("10.0.0.2"))
EGRESS = End("router", "p1", "02:48:00:00:00:03", IPv4Address("10.0.1.2"))
SINK = End("sink", "s0", "02:48:00:00:00:04", IPv4Address("10.0.1.1"))
_ROUTER_PORTS = [(port, end.name, end.mac) for port, end in enumerate((INGRESS, EGRESS))]
_TABLE = (
    TableEntry(IPv4Network(INGRESS.address)),
    TableEntry(IPv4Network(EGRESS.address)),
    TableEntry(IPv4Network("10.0.1.0/24"), 1, SINK.mac),
)


@dataclass(frozen=True)
class Line:
    """The path: its fabric; descriptors of the generator, its headers, the sink's count."""

    fabric: str
    generator: int
    headers: int
    arrived: int
    ifindex: int

    def home(self, node: str) -> str:
        """The namespace of a node."""
        return _home(self.fabric, node)


@contextmanager
def three_nodes() -> Iterator[Line]:
    """Set up the path; remove it afterwards."""
    programs.ensure_programs((*programs.PROGRAMS, "generate", "sink"))
    fabric = f"bench{os.getpid()}"
    with ExitStack() as stack:
        stack.callback(pins.remove_pins, fabric)
        for node in ("generator", "router", "sink"):
            stack.callback(namespace.delete, _home(fabric, node))
            namespace.create(_home(fabric, node), "hipsnet benchmark")
            with namespace.inside(_home(fabric, node)):
                # IPv6 router solicitations would be counted.
                Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        _plug(fabric, OUT, INGRESS)
        _plug(fabric, EGRESS, SINK)
        _prepare_router(fabric)
        generator, headers, ifindex = _attach(stack, fabric, OUT, "generate", "headers")
        _, arrived, _ = _attach(stack, fabric, SINK, "sink", "arrived")
        yield Line(fabric, generator, headers, arrived, ifindex)


def set_way(line: Line, way: Way) -> None:
    """Configure the router to forward by XDP only, or by the kernel only."""
    with namespace.inside(line.home("router")):
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1" if way == "kernel" else "0")
        if way == "kernel":
            detach(line.fabric, "router", [INGRESS.name, EGRESS.name])
        else:
            attach_forwarding(line.fabric, "router", _ROUTER_PORTS)
            fill_table(line.fabric, "router", _TABLE)


def send(line: Line, frame: bytes, frames: int) -> tuple[int, float]:
    """Send a frame `frames` times along the path; return (frames that arrived, seconds until sending ended).

    The path is one CPU's work, the sender's, from end to end: when the call returns at most a ring is left.
    """
    bpf.update(line.headers, bytes(4), frame[:_HEADERS_BYTES])
    before = _count(line.arrived)
    with namespace.inside(line.home("generator")):
        start = time.perf_counter()
        run_live(line.generator, frame, line.ifindex, frames)
        seconds = time.perf_counter() - start
    time.sleep(_SETTLE_S)
    return _count(line.arrived) - before, seconds


def udp_frame(size_bytes: int) -> bytes:
    """A frame of that size, without FCS, from the generator to the sink by way of the router."""
    payload = bytes(size_bytes - 42)
    header = struct.pack(
        "!BBHHHBBH4s4s",
        *(0x45, 0, size_bytes - 14, 0, 0x4000, 64, 17, 0, OUT.address.packed, SINK.address.packed),
    )
    total = sum(word for (word,) in struct.iter_unpack("!H", header))
    check = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ethernet = mac_bytes(INGRESS.mac) + mac_bytes(OUT.mac) + b"\x08\x00"
    udp = struct.pack("!HHHH", 9, 9, size_bytes - 34, 0)
    return ethernet + header[:10] + struct.pack("!H", check) + header[12:] + udp + payload


def _home(fabric: str, node: str) -> str:
    return f"{fabric}-{node}"


def _count(fd: int) -> int:
    by_cpu = bpf.lookup(fd, bytes(4), 8 * possible_cpus()) or b""
    return sum(frames for (frames,) in struct.iter_unpack("=Q", by_cpu))


def _plug(fabric: str, end: End, peer: End) -> None:
    """A cable between two ends, up and with addresses."""
    with namespace.inside(_home(fabric, end.node)), IPRoute() as netlink:
        far = {"ifname": peer.name, "address": peer.mac, "net_ns_fd": _home(fabric, peer.node)}
        netlink.link("add", ifname=end.name, kind="veth", address=end.mac, peer=far)
    for one in (end, peer):
        with namespace.inside(_home(fabric, one.node)), IPRoute() as netlink:
            (index,) = netlink.link_lookup(ifname=one.name)
            netlink.addr("add", index=index, address=str(one.address), prefixlen=24)
            netlink.link("set", index=index, state="up", mtu=MTU)


def _prepare_router(fabric: str) -> None:
    with namespace.inside(_home(fabric, "router")), IPRoute() as netlink:
        (egress,) = netlink.link_lookup(ifname=EGRESS.name)
        netlink.neigh("add", dst=str(SINK.address), lladdr=SINK.mac, ifindex=egress, state="permanent")
        for end in (INGRESS, EGRESS):
            subprocess.run(["ethtool", "-K", end.name, "gro", "on"], check=True)


def _attach(stack: ExitStack, fabric: str, end: End, name: str, table: str) -> tuple[int, int, int]:
    """(program, its only map, interface) of a program on one end; also what only sends needs one attached."""
    program = programs.program_of(name)
    entries = stack.enter_context(bpf.closing(programs.create_map(program, table)))
    loaded = stack.enter_context(bpf.closing(programs.load(program, {table: entries})))
    with namespace.inside(_home(fabric, end.node)), IPRoute() as netlink:
        (ifindex,) = netlink.link_lookup(ifname=end.name)
        bpf.attach(ifindex, loaded)
    return loaded, entries, ifindex
