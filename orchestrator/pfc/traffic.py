# SPDX-License-Identifier: Apache-2.0
"""Traffic on a lab's cables that is marked as RoCE and honours PFC: hipsnet/stack/programs/traffic.c."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from hipsnet.errors import ProvisionError
from hipsnet.node import bpf, pins
from hipsnet.node.shaping import burst_bytes
from hipsnet.stack.building import binary
from hipsnet.topology import Fabric, Topology
from hipsnet.topology.fabric import Port, Server
from kernel import cache_folder
from orchestrator.lab.namespaces import namespace_name

_SOURCES = ("programs/traffic.c", "programs/traffic_plan.c", "xsk/xsk.c", "xsk/open.c", "xsk/memory.c")


@dataclass(frozen=True)
class Flow:
    """Frames from one server's port to another's; the flows of a port share its rate."""

    source: Port
    target: Port
    bytes: int = 4170


@dataclass(frozen=True)
class PortResult:
    """The counters of a port; `pause_frames` and `pause_us` are by priority."""

    port: Port
    tx_frames: int
    tx_bytes: int
    rx_frames: int
    rx_lost: int
    pause_frames: tuple[int, ...]
    pause_us: tuple[int, ...]


@dataclass(frozen=True)
class FlowResult:
    """The result of a flow; `late` frames arrived after a frame that was sent after them."""

    flow: Flow
    sent: int
    received: int
    received_bytes: int
    late: int
    seconds: float

    @property
    def lost(self) -> int:
        """Frames that did not arrive."""
        return self.sent - self.received


@dataclass(frozen=True)
class Result:
    """The result of a run of traffic."""

    ports: tuple[PortResult, ...]
    flows: tuple[FlowResult, ...]

    @property
    def goodput_bps(self) -> float:
        """The received bits over the time from the first frame to the last."""
        seconds = max((flow.seconds for flow in self.flows), default=0.0)
        return 8 * sum(flow.received_bytes for flow in self.flows) / seconds if seconds else 0.0

    def of(self, port: Port) -> PortResult:
        """The result of one port."""
        return next(found for found in self.ports if found.port == port)


def start(
    topology: Topology,
    fabric: Fabric,
    flows: Sequence[Flow],
    seconds: float,
    frozen: Sequence[Port] = (),
    rate_bps: int | None = None,
) -> subprocess.Popen[str]:
    """Begin a run; `frozen` ports stop RoCE's priority for good at the other ends of their cables.

    Ports send at `rate_bps`, the cables' rate unless it is given. End it with `finish`.
    """
    ports = _ports(flows, frozen)
    rate = rate_bps if rate_bps is not None else topology.link.rate_bps or 0
    burst_ns = burst_bytes(rate, topology.link.mtu) * 8_000_000_000 // rate if rate else 0
    lines = []
    for port in ports:
        stopped = topology.roce.priority if port in frozen else -1
        where = f"{namespace_name(fabric.name, port.node)} {port.name} {_sockets(fabric.name, port.node)}"
        lines.append(f"port {where} {port.index} {rate} {burst_ns} {stopped}")
    for flow in flows:
        marks = f"{flow.bytes} {topology.roce.priority} {topology.roce.dscp}"
        lines.append(f"flow {ports.index(flow.source)} {_addresses(fabric, flow)} {marks}")
    program = binary("traffic", _SOURCES, cache_folder(), ("xdp", "bpf"))
    process = subprocess.Popen(
        [str(program), str(int(seconds * 1000))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()
    process.stdin.close()
    process.stdin = None
    return process


def finish(process: subprocess.Popen[str], flows: Sequence[Flow], frozen: Sequence[Port] = ()) -> Result:
    """Wait for the end of a run. Raises ProvisionError with the program's message if it failed."""
    output, errors = process.communicate()
    if process.returncode != 0:
        raise ProvisionError(f"traffic: {errors.strip()}")
    rows = [(kind, [int(word) for word in words]) for kind, *words in map(str.split, output.splitlines())]
    ports = [row for kind, row in rows if kind == "port"]
    sent = [row for kind, row in rows if kind == "flow"]
    return Result(
        tuple(_port_result(port, row) for port, row in zip(_ports(flows, frozen), ports, strict=True)),
        tuple(_flow_result(flow, row) for flow, row in zip(flows, sent, strict=True)),
    )


def run(
    topology: Topology,
    fabric: Fabric,
    flows: Sequence[Flow],
    seconds: float,
    frozen: Sequence[Port] = (),
    rate_bps: int | None = None,
) -> Result:
    """A whole run."""
    return finish(start(topology, fabric, flows, seconds, frozen, rate_bps), flows, frozen)


def _port_result(port: Port, row: list[int]) -> PortResult:
    pauses = row[4:]
    tx_frames, tx_bytes, rx_frames, rx_lost = row[:4]
    return PortResult(port, tx_frames, tx_bytes, rx_frames, rx_lost, tuple(pauses[0::2]), tuple(pauses[1::2]))


def _flow_result(flow: Flow, row: list[int]) -> FlowResult:
    sent, received, received_bytes, late, lasted_ns = row
    return FlowResult(flow, sent, received, received_bytes, late, lasted_ns / 1e9)


def _ports(flows: Sequence[Flow], frozen: Sequence[Port]) -> list[Port]:
    ends = [port for flow in flows for port in (flow.source, flow.target)]
    return list(dict.fromkeys((*ends, *frozen)))


def _addresses(fabric: Fabric, flow: Flow) -> str:
    """MACs and IPs: of the target behind a bridge, otherwise of the router at the end of the cable."""
    peer = fabric.peer(flow.source)
    other = fabric.nodes[peer.node]
    is_bridged = isinstance(other, Server) or other.routes_at == "l2"
    assert flow.target.address and flow.source.address
    to = flow.target.mac if is_bridged else peer.mac
    return f"{to} {flow.source.mac} {flow.target.address.ip} {flow.source.address.ip}"


def _sockets(fabric: str, node: str) -> int:
    """The id of the map of AF_XDP sockets of a server's program."""
    fd = bpf.open_pin(pins.node_folder(fabric, node) / "endpoints")
    if fd is None:
        raise ProvisionError(f"{node} of {fabric}: its XDP program is not loaded; run `hipsnet provision`")
    with bpf.closing(fd):
        return bpf.map_info(fd).id
