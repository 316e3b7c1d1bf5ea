# SPDX-License-Identifier: Apache-2.0
"""Two rxe devices at the ends of one cable, both in this namespace: all packets cross the cable.

The kernel delivers packets to its own addresses over the loopback. So the table of local addresses is used only for
packets that arrive at a cable's end; others leave by the end that has their source address.
Requires a namespace without other users: rxe works in the initial one only, hence a virtual machine.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hipsnet.errors import TransportError
from hipsnet.transport.verbs.devices import endpoint_of, port_state

MTU = 4200  # holds InfiniBand's MTU of 4096 with all headers
_READY_S = 10.0


@dataclass(frozen=True)
class End:
    """An end of the cable."""

    netdev: str
    mac: str
    address: str

    @property
    def device(self) -> str:
        return f"rxe_{self.netdev}"


ENDS = (End("near0", "02:48:00:00:01:01", "10.0.0.1"), End("far0", "02:48:00:00:01:02", "10.0.0.2"))


@contextmanager
def rdma_pair() -> Iterator[tuple[End, End]]:
    """The cable with both ends up and their devices active; removed afterwards."""
    near, far = ENDS
    # Created with fixed MACs: udev replaces random MACs some time later.
    births = [f"{end.netdev} address {end.mac} mtu {MTU}" for end in ENDS]
    links = [f"link add {births[0]} type veth peer name {births[1]}"]
    try:
        for name in ("accept_local", "rp_filter"):
            for where in ("all", "default"):
                value = "1" if name == "accept_local" else "0"
                Path(f"/proc/sys/net/ipv4/conf/{where}/{name}").write_text(value)
        _run("ip", *links, *_settings(near, far, 1), *_settings(far, near, 2))
        _run("ip", "rule add pref 300 lookup local", "rule del pref 0 lookup local")
        _run("rdma", *(f"link add {end.device} type rxe netdev {end.netdev}" for end in ENDS))
        _wait()
        yield near, far
    finally:
        _run("ip", "rule del pref 0", "rule add pref 0 lookup local", "rule del pref 300", check=False)
        _run("rdma", *(f"link del {end.device}" for end in ENDS), check=False)
        _run(
            "ip",
            f"link del {near.netdev}",
            *(f"rule del pref {n}" for n in (101, 102, 201, 202)),
            check=False,
        )


def _settings(end: End, other: End, number: int) -> list[str]:
    return [
        f"link set {end.netdev} up",
        f"addr add {end.address}/32 dev {end.netdev}",
        f"neigh add {other.address} lladdr {other.mac} dev {end.netdev} nud permanent",
        f"rule add pref {100 + number} iif {end.netdev} lookup local",
        f"rule add pref {200 + number} from {end.address} lookup {1000 + number}",
        f"route add default dev {end.netdev} table {1000 + number}",
    ]


def _wait() -> None:
    deadline = time.monotonic() + _READY_S
    for end in ENDS:
        while True:
            try:
                if port_state(endpoint_of(end.address)) == "ACTIVE":
                    break
            except TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)


def _run(tool: str, *lines: str, check: bool = True) -> None:
    force = [] if check else ["-force" if tool == "ip" else "-f"]
    command = [tool, *force, "-b", "-"]
    subprocess.run(command, input="\n".join(lines), text=True, check=check, capture_output=not check)
