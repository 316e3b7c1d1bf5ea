"""A fabric of rxe devices in one namespace: every server port a veth with an rxe device and an address of its own.

rxe lives in the initial namespace only, so all servers share it, and the kernel must be kept from delivering
what one port sends to another over the loopback. Each port gets two routing tables: one for what is sent from
its address, which leaves by that port whatever the destination, and one for what arrives at it, in which only
its own address is local. What arrives for another address is forwarded as its server would forward it; what
arrives at one port of a server for another one goes around by that port's neighbour, because a queue pair
listens at its own device alone. With one neighbour on every port (n = 2, sides of 2) this is a whole network.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hipsnet.topology import Fabric, Port, build, parse, routes
from tests.collective.arena import Arena

MTU = 4200  # the smallest that holds InfiniBand's MTU of 4096 with all headers (rxe_net.h)
SYSCTLS = {
    "ip_forward": "1",
    "conf/all/accept_local": "1",
    "conf/all/rp_filter": "0",
    "conf/default/rp_filter": "0",
    "conf/all/send_redirects": "0",
    "conf/default/send_redirects": "0",
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


def sent_bytes(port: Port) -> int:
    return int(Path(f"/sys/class/net/{netdev(port)}/statistics/tx_bytes").read_text())


@contextmanager
def rdma_fabric(folder: Path, fabric: str, dscp: int = 26) -> Iterator[tuple[Arena, Fabric]]:
    """The fabric (YAML flow style), connected and addressed; all of it is taken away afterwards."""
    file = folder / "fabric.yaml"
    file.write_text(f"version: 1\nname: rdma\nfabric: {fabric}\nroce: {{dscp: {dscp}}}\n")
    made = build(parse(file.read_text(), str(file)))
    before = {name: _sysctl(name).read_text() for name in SYSCTLS}
    try:
        for name, value in SYSCTLS.items():
            _sysctl(name).write_text(value)
        _cable(made)
        _route(made)
        rdma(*(f"link add {device(port)} type rxe netdev {netdev(port)}" for port in _ports(made)))
        settings = {"transport": "verbs", "timeout_s": 20.0}
        yield Arena(None, file, len(made.servers), settings), made
    finally:
        _remove(made)
        for name, value in before.items():
            _sysctl(name).write_text(value)


def _cable(fabric: Fabric) -> None:
    ip(*(f"link add {switch.name} type bridge" for switch in fabric.switches))
    for link in fabric.links:
        a, b = netdev(link.a), netdev(link.b)
        ip(f"link add {a} mtu {MTU} type veth peer name {b} mtu {MTU}")
    for link in fabric.links:
        for end in (link.a, link.b):
            if end.node in {switch.name for switch in fabric.switches}:
                ip(f"link set {netdev(end)} master {end.node}")
            else:
                ip(
                    f"link set {netdev(end)} address {end.mac}",
                    f"addr add {_address(end)}/32 dev {netdev(end)}",
                )
            ip(f"link set {netdev(end)} up")
    ip(*(f"link set {switch.name} up" for switch in fabric.switches))


def _route(fabric: Fabric) -> None:
    neighbours = {
        port: other
        for port in _ports(fabric)
        for other in _ports(fabric)
        if port != other and port.address and other.address and port.address.network == other.address.network
    }
    for number, (port, neighbour) in enumerate(neighbours.items()):
        here, sent, arrived = netdev(port), 1000 + number, 2000 + number
        # All routes are on-link: whatever the destination, the one neighbour is the next hop.
        ip(
            *(
                f"neigh add {_address(other)} lladdr {neighbour.mac} dev {here} nud permanent"
                for other in neighbours
                if other != port
            ),
            f"rule add pref {100 + number} iif {here} lookup {arrived}",
            f"rule add pref {200 + number} from {_address(port)} lookup {sent}",
            f"route add default dev {here} table {sent}",
            f"route add local {_address(port)} dev {here} table {arrived}",
        )
    for server in fabric.servers:
        onward = {_address(port): port for port in server.ports}
        onward |= {_address(neighbours[port]): port for port in server.ports}
        onward |= {str(r.prefix): server.ports[r.hops[0].port] for r in routes(fabric, server.name)}
        for port in server.ports:
            table = 2000 + list(neighbours).index(port)
            ways = [f"{to} dev {netdev(by)}" for to, by in onward.items() if to != _address(port)]
            ip(*(f"route add {way} table {table}" for way in ways))
    ip("rule add pref 300 lookup local", "rule del pref 0 lookup local")


def _remove(fabric: Fabric) -> None:
    """Take away what is there of it; a device may be missing, because a test has removed it."""
    ip("rule add pref 0 lookup local")
    while subprocess.run(["ip", "rule", "del", "pref", "300"], capture_output=True).returncode == 0:
        pass
    for number in range(len(_ports(fabric))):
        for pref in (100 + number, 200 + number):
            subprocess.run(["ip", "rule", "del", "pref", str(pref)], capture_output=True)
    for port in _ports(fabric):
        subprocess.run(["rdma", "link", "del", device(port)], capture_output=True)
        subprocess.run(["ip", "link", "del", netdev(port)], capture_output=True)
    for switch in fabric.switches:
        subprocess.run(["ip", "link", "del", switch.name], capture_output=True)


def _ports(fabric: Fabric) -> list[Port]:
    return [port for server in fabric.servers for port in server.ports]


def _address(port: Port) -> str:
    assert port.address is not None
    return str(port.address.ip)


def _sysctl(name: str) -> Path:
    return Path("/proc/sys/net/ipv4") / name


def _batch(tool: str, lines: tuple[str, ...]) -> None:
    if lines:
        done = subprocess.run([tool, "-b", "-"], input="\n".join(lines), text=True, capture_output=True)
        assert done.returncode == 0, f"{tool}: {done.stderr} in\n" + "\n".join(lines)
