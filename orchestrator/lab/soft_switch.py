# SPDX-License-Identifier: Apache-2.0
"""The soft switches of a fabric: starts, finds and ends the process that runs them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsnet.errors import ProvisionError
from hipsnet.node import bpf, delay, links, namespace, pins, shaping
from hipsnet.node.change import Action, Change
from hipsnet.node.context import opened
from hipsnet.stack.building import binary
from hipsnet.topology import Fabric, Switch, Topology
from kernel import cache_folder
from orchestrator.lab import processes, soft_switch_config, state
from orchestrator.lab.namespaces import namespace_name
from orchestrator.lab.soft_switch_config import Sockets

_NAME = "hipsnet-soft-switch"
_CONFIG, _COUNTERS = "soft-switch.conf", "switch-counters"
_SOCKETS = "endpoints"
_SOURCES = (
    "switch/soft_switch.c", "switch/open.c", "switch/carry.c", "switch/config.c",
    "switch/core.c", "switch/receive.c", "switch/bridge.c", "switch/router.c", "switch/buffer.c",
    "switch/egress.c", "switch/marking.c", "switch/storm.c",
    "cable/watchdog.c", "xsk/xsk.c", "xsk/memory.c", "xsk/open.c",
)  # fmt: skip


@dataclass(frozen=True)
class Running:
    """A running process, and the digest of its configuration, from its command line."""

    pid: int
    digest: str


def program() -> Path:
    """The soft switch's program, compiled if necessary. Raises CapabilityError if that fails."""
    return binary("soft_switch", _SOURCES, cache_folder(), ("xdp", "bpf"))


def is_wanted(topology: Topology, fabric: Fabric) -> bool:
    """Whether the fabric has switches and the topology file makes them lossless."""
    return topology.lab.switch == "lossless" and bool(fabric.switches)


def counters_path(fabric: str) -> Path:
    """The counters file of the switches, for `hipsnet.stack.switch.counters.read`."""
    return state.folder(fabric) / _COUNTERS


def running(fabric: str) -> tuple[Running, ...]:
    """The switch processes of a fabric, from /proc: at most one unless something went wrong."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if words[:2] == [_NAME, fabric] and entry.stat().st_uid == os.geteuid():
                    found.append(Running(int(entry.name), words[2]))
    return tuple(found)


def differences(
    topology: Topology, fabric: Fabric, changes: Mapping[str, Sequence[Change]], moves: bool
) -> tuple[Change, ...]:
    """The changes that the process needs; none if it runs the switches as in the file.

    `changes` are those of the nodes; `moves` is true if nodes or cables are added or removed.
    """
    processes_now = running(fabric.name)
    served = [process.digest for process in processes_now]
    if not is_wanted(topology, fabric):
        return (_change(fabric, "remove", "running"),) if served else ()
    after = f"for {len(fabric.switches)} switches"
    programs_move = any(
        change.aspect == "program" for switch in fabric.switches for change in changes.get(switch.name, ())
    )
    needed = _needed(topology, fabric)
    if served:
        differs = moves or programs_move or needed is None or served != [soft_switch_config.digest(needed)]
        if differs:
            return (_change(fabric, "change", "for others", after),)
        lost = not all(_has_counters_file(fabric.name, process.pid) for process in processes_now)
        return (_change(fabric, "change", "without its counters file", after),) if lost else ()
    was_there = counters_path(fabric.name).exists()
    return (_change(fabric, "change" if was_there else "add", "not running" if was_there else "", after),)


def _change(fabric: Fabric, action: Action, before: str, after: str = "") -> Change:
    return Change(fabric.name, "soft switch", action, "process", before, after)


def _has_counters_file(fabric: str, pid: int) -> bool:
    """Whether the process has the present counters file mapped; it keeps a deleted file mapped."""
    try:
        inode = str(counters_path(fabric).stat().st_ino)
        mappings = (line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
        return any(inode == words[4] and words[-1].endswith(_COUNTERS) for words in mappings)
    except OSError:
        return False


def serve(topology: Topology, fabric: Fabric) -> None:
    """Start or restart the process so that it runs the switches as in the file; end it if there are none.

    Called with the fabric's lock held. Raises ProvisionError if it cannot be started, or an old one not ended.
    """
    served = [process.digest for process in running(fabric.name)]
    needed = _needed(topology, fabric) if is_wanted(topology, fabric) else None
    if served and (needed is None or served != [soft_switch_config.digest(needed)]):
        stop(fabric.name)
        served = []
    if needed is not None and not served:
        _start(fabric.name, needed)


def stop(fabric: str) -> None:
    """End the process of a fabric's switches; no error if there is none."""
    stubborn = processes.end(process.pid for process in running(fabric))
    if stubborn:
        raise ProvisionError(f"{fabric}: the soft switch (process {stubborn[0]}) cannot be ended; end it")
    for name in (_CONFIG, _COUNTERS):
        (state.folder(fabric) / name).unlink(missing_ok=True)


def _needed(topology: Topology, fabric: Fabric) -> str | None:
    """The configuration; None while a port lacks its program or its socket map."""
    found = {}
    for switch in fabric.switches:
        sockets = _sockets(fabric.name, switch)
        if sockets is None:
            return None
        found[switch.name] = sockets
    return soft_switch_config.text(topology, fabric, str(counters_path(fabric.name)), found)


def _sockets(fabric: str, switch: Switch) -> Sockets | None:
    fd = bpf.open_pin(pins.node_folder(fabric, switch.name) / _SOCKETS)
    if fd is None:
        return None
    with bpf.closing(fd):
        number = bpf.map_info(fd).id
    ifindexes = tuple(port.ifindex for port in delay.read(fabric, switch.name))
    rates = _rates(fabric, switch.name)
    if len(ifindexes) != len(switch.ports) or not {port.name for port in switch.ports} <= rates.keys():
        return None
    return Sockets(number, ifindexes, tuple(rates[port.name] for port in switch.ports))


def _rates(fabric: str, node: str) -> dict[str, int | None]:
    """The rates of a node's links by name; empty if there is no such node."""
    name = namespace_name(fabric, node)
    if name not in namespace.names() or namespace.is_leftover(name):
        return {}
    with opened(node, name) as context:
        found = links.read(context)
        return {link.name: shaping.read(context, link).get("rate_bps") for link in found.values()}


def _start(fabric: str, content: str) -> None:
    path = state.folder(fabric) / _CONFIG
    state.write_text(path, content)
    command = [_NAME, fabric, soft_switch_config.digest(content), str(path)]
    # The process forks into the background when it is ready.
    done = subprocess.run(
        command, executable=program(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ProvisionError(
            f"{fabric}: the soft switch does not start: {done.stderr.strip()}; run `hipsnet provision` again"
        )
