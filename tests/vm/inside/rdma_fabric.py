# SPDX-License-Identifier: Apache-2.0
"""A fabric of rxe devices in one namespace: every server port a veth with an rxe device and an address of its own.

rxe lives in the initial namespace only, so all servers share it, and the kernel must be kept from delivering
what one port sends to another over the loopback: what arrives at a port finds that port's address local and no
other, and what is sent from a port's address leaves by that port, towards the neighbours in its subnet.
Nothing is forwarded: a queue pair listens at its own device alone, so RDMA goes one hop.
"""

from __future__ import annotations

import importlib
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hipsnet.errors import TransportError
from hipsnet.topology import Fabric, Port, build, parse
from hipsnet.transport.verbs.devices import endpoint_of, port_state
from tests.collective.arena import Arena

ETH_P_IP, PACKET_OUTGOING, SO_RCVBUFFORCE, ROCE_PORT = 0x0800, 4, 33, 4791
MTU = 4200  # the smallest that holds InfiniBand's MTU of 4096 with all headers (rxe_net.h)
DSCP = 46  # not the default
SYSCTLS = {
    "conf/all/accept_local": "1",
    "conf/all/rp_filter": "0",
    "conf/default/rp_filter": "0",
}


def netdev(port: Port) -> str:
    return f"{port.node}{port.name}"


def device(port: Port) -> str:
    return f"rxe_{netdev(port)}"


def ip(*lines: str) -> None:
    _batch("ip", lines)


def rdma(*lines: str) -> None:
    _batch("rdma", lines)


def resources() -> dict[str, dict[str, int]]:
    """What the kernel counts for each RDMA device: pd, cq, qp, mr, ..."""
    text = subprocess.run(["rdma", "-j", "resource", "show"], capture_output=True, check=True).stdout
    return {
        row["ifname"]: {kind: n for kind, n in row.items() if kind not in ("ifname", "ifindex")}
        for row in json.loads(text)
    }


def counters(port: Port) -> dict[str, int]:
    """`rdma statistic` of a port's device."""
    command = ["rdma", "-j", "statistic", "show", "link", f"{device(port)}/1"]
    (row,) = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {name: n for name, n in row.items() if isinstance(n, int)}


def receiver_not_ready(port: Port) -> int:
    """How often a port's device had no receive for a peer, or a peer none for it."""
    found = counters(port)
    return found["send_rnr_err"] + found["rcvd_rnr_err"]


def sent_bytes(port: Port) -> int:
    return int(Path(f"/sys/class/net/{netdev(port)}/statistics/tx_bytes").read_text())


@contextmanager
def rdma_fabric(folder: Path, fabric: str, dscp: int = DSCP) -> Iterator[tuple[Arena, Fabric]]:
    """The fabric (YAML flow style), connected and addressed; all of it is taken away afterwards."""
    file = folder / "fabric.yaml"
    file.write_text(f"version: 1\nname: rdma\nfabric: {fabric}\nroce: {{dscp: {dscp}}}\n")
    made = build(parse(file.read_text(), str(file)))
    before = {name: _sysctl(name).read_text() for name in SYSCTLS}
    try:
        for name, value in SYSCTLS.items():
            _sysctl(name).write_text(value)
        _load_before_fork()
        ip(*_cables(made), *_ways(made))
        rdma(*(f"link add {device(port)} type rxe netdev {netdev(port)}" for port in _ports(made)))
        settings = {"transport": "verbs", "timeout_s": 60.0, "start_timeout_s": 200.0}
        yield Arena(None, file, len(made.servers), settings), made
    finally:
        _remove(made)
        for name, value in before.items():
            _sysctl(name).write_text(value)


@contextmanager
def sniffed(port: Port) -> Iterator[Callable[[], list[int]]]:
    """The DSCPs of the RoCEv2 packets that arrive at a port, in order, asked for once."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        sock.bind((netdev(port), ETH_P_IP))
        sock.setblocking(False)

        def arrived() -> list[int]:
            found = []
            with suppress(BlockingIOError):
                while True:
                    frame, (_, _, kind, *_) = sock.recvfrom(128)
                    udp = frame[23] == socket.IPPROTO_UDP
                    if kind != PACKET_OUTGOING and udp and frame[36:38] == ROCE_PORT.to_bytes(2, "big"):
                        found.append(frame[15] >> 2)
            return found

        yield arrived


@contextmanager
def broken(fabric: Fabric, port: Port, line: str) -> Iterator[None]:
    """A port after the `ip` command `line`; restored afterwards, whatever happens meanwhile."""
    ip(line)
    try:
        yield
    finally:
        restore(fabric, port)


def restore(fabric: Fabric, port: Port) -> None:
    """Give back to a port what the kernel took with its link or its address."""
    here = netdev(port)
    lines = [line for line in _ways(fabric) if f" {here} " in f"{line} " and not line.startswith("rule")]
    _try("ip", f"link set {here} up", f"addr add {address(port)}/32 dev {here}", *lines)
    deadline = time.monotonic() + 10
    while not _is_active(port):
        assert time.monotonic() < deadline, f"{here} does not come back"
        time.sleep(0.05)


def _is_active(port: Port) -> bool:
    try:
        return port_state(endpoint_of(address(port))) == "ACTIVE"
    except TransportError:  # the GID comes a moment after the address
        return False


def _load_before_fork() -> None:
    """What every rank would load for itself, once: by emulation that takes most of a rank's life."""
    importlib.import_module("hipsnet.collective.communicator")
    importlib.import_module("hipsnet.engine.wire.verbs")
    importlib.import_module("pyverbs.device").get_device_list()


def _cables(fabric: Fabric) -> Iterator[str]:
    switches = {switch.name for switch in fabric.switches}
    for switch in switches:
        yield f"link add {switch} up type bridge"
    for link in fabric.links:
        # Born with their MACs: to those of chance udev gives others, at a moment of its own.
        yield f"link add {_birth(link.a)} type veth peer name {_birth(link.b)}"
        for end in (link.a, link.b):
            if end.node in switches:
                yield f"link set {netdev(end)} up master {end.node}"
            else:
                yield f"link set {netdev(end)} up"
                yield f"addr add {address(end)}/32 dev {netdev(end)}"


def _birth(end: Port) -> str:
    return f"{netdev(end)} address {end.mac} mtu {MTU}"


def _ways(fabric: Fabric) -> Iterator[str]:
    for number, port in enumerate(_ports(fabric)):
        here, sent, arrived = netdev(port), 1000 + number, 2000 + number
        assert port.address is not None
        yield f"rule add pref {100 + number} iif {here} lookup {arrived}"
        yield f"rule add pref {200 + number} from {address(port)} lookup {sent}"
        yield f"route add {port.address.network} dev {here} table {sent}"
        yield f"route add local {address(port)} dev {here} table {arrived}"
        for other in _ports(fabric):
            if other != port and other.address and other.address.network == port.address.network:
                yield f"neigh add {address(other)} lladdr {other.mac} dev {here} nud permanent"
    yield "rule add pref 300 lookup local"
    yield "rule del pref 0 lookup local"


def _remove(fabric: Fabric) -> None:
    """Take away what is there of it; a device may be missing, because a test has removed it."""
    numbers = range(len(_ports(fabric)))
    _try("rdma", *(f"link del {device(port)}" for port in _ports(fabric)))
    _try("ip", *(f"link del {netdev(port)}" for port in _ports(fabric)))
    _try("ip", *(f"link del {switch.name}" for switch in fabric.switches))
    _try("ip", *(f"rule del pref {pref + n}" for pref in (100, 200) for n in numbers))
    _try("ip", "rule del pref 0", "rule add pref 0 lookup local", "rule del pref 300")


def _try(tool: str, *lines: str) -> None:
    """All the lines, whichever of them fail."""
    subprocess.run(
        [tool, {"ip": "-force", "rdma": "-f"}[tool], "-b", "-"],
        input="\n".join(lines),
        text=True,
        capture_output=True,
    )


def _ports(fabric: Fabric) -> list[Port]:
    return [port for server in fabric.servers for port in server.ports]


def address(port: Port) -> str:
    assert port.address is not None
    return str(port.address.ip)


def _sysctl(name: str) -> Path:
    return Path("/proc/sys/net/ipv4") / name


def _batch(tool: str, lines: tuple[str, ...]) -> None:
    if lines:
        done = subprocess.run([tool, "-b", "-"], input="\n".join(lines), text=True, capture_output=True)
        assert done.returncode == 0, f"{tool}: {done.stderr} in\n" + "\n".join(lines)
