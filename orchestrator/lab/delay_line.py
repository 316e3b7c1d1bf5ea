# SPDX-License-Identifier: Apache-2.0
"""The delay line of a fabric: starts, finds and ends the process that holds the frames of delayed cables."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsnet.errors import ProvisionError
from hipsnet.node import delay
from hipsnet.node.change import Action, Change
from hipsnet.node.desired import NodeConfig
from hipsnet.stack.building import binary
from hipsnet.topology import Fabric
from kernel import cache_folder
from orchestrator.lab import processes
from orchestrator.lab.namespaces import namespace_name

_NAME = "hipsnet-delay-line"


@dataclass(frozen=True)
class Line:
    """One direction of a cable: from the receiving port's ring to the interface at the sending end."""

    ring: int
    namespace: str
    ifindex: int


@dataclass(frozen=True)
class Running:
    """A running delay line, and the lines that it serves, from its command line."""

    pid: int
    arguments: tuple[str, ...]


def program() -> Path:
    """The delay line's program, compiled if necessary. Raises CapabilityError if that fails."""
    return binary("delay_line", ("programs/delay_line.c",), cache_folder())


def is_wanted(configs: Mapping[str, NodeConfig]) -> bool:
    """Whether any cable has a delay."""
    return any(link.delay_us for config in configs.values() for link in config.ports)


def lines(fabric: Fabric) -> tuple[Line, ...]:
    """All directions of cables that have a ring now."""
    found = {node: delay.read(fabric.name, node) for node in fabric.nodes}
    present = []
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            here, there = found[near.node], found[far.node]
            if near.index < len(here) and far.index < len(there) and here[near.index].ring:
                namespace = namespace_name(fabric.name, far.node)
                present.append(Line(here[near.index].ring, namespace, there[far.index].ifindex))
    return tuple(present)


def running(fabric: str) -> tuple[Running, ...]:
    """The delay lines of a fabric, from /proc: at most one unless something went wrong."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                name, *arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if name == _NAME and arguments[0] == fabric and entry.stat().st_uid == os.geteuid():
                    found.append(Running(int(entry.name), tuple(arguments[1:-1])))
    return tuple(found)


def differences(
    fabric: Fabric, configs: Mapping[str, NodeConfig], changes: Mapping[str, Sequence[Change]], moves: bool
) -> tuple[Change, ...]:
    """The changes that the delay line needs; none if it serves exactly the cables that have a delay.

    `changes` are those of the nodes; `moves` is true if nodes or cables are added or removed.
    """
    served = [process.arguments for process in running(fabric.name)]
    held = _arguments(lines(fabric))
    cables = sum(link.delay_us > 0 for config in configs.values() for link in config.ports)
    if not cables:
        stray = "running" if served else "not running" if held else ""
        return (_change(fabric, "remove", stray),) if stray else ()
    after = f"for {cables} ends of cables"
    rings_move = any(_moves_rings(change) for found in changes.values() for change in found)
    if served:
        differs = moves or rings_move or served != [held]
        return (_change(fabric, "change", "for others", after),) if differs else ()
    return (_change(fabric, "change" if held else "add", "not running" if held else "", after),)


def _change(fabric: Fabric, action: Action, before: str, after: str = "") -> Change:
    return Change(fabric.name, "delay line", action, "process", before, after)


def _moves_rings(change: Change) -> bool:
    return change.aspect == "program" or (change.aspect == "delay" and change.action != "change")


def serve(fabric: Fabric) -> None:
    """Start or restart the delay line for the cables that have a delay; end it if there are none.

    Frames that an ended process held are sent by the next one. Called with the fabric's lock held.
    Raises ProvisionError if it cannot be started, or an old one cannot be ended.
    """
    needed = lines(fabric)
    served = [process.arguments for process in running(fabric.name)]
    if served == ([_arguments(needed)] if needed else []):
        return
    stop(fabric.name)
    if needed:
        _start(fabric.name, needed)


def stop(fabric: str) -> None:
    """End the delay line of a fabric; no error if there is none."""
    stubborn = processes.end(process.pid for process in running(fabric))
    if stubborn:
        raise ProvisionError(f"{fabric}: the delay line (process {stubborn[0]}) cannot be ended; end it")


def _arguments(needed: Sequence[Line]) -> tuple[str, ...]:
    return tuple(text for line in needed for text in _triple(line))


def _triple(line: Line) -> Iterator[str]:
    yield from (str(line.ring), line.namespace, str(line.ifindex))


def _start(fabric: str, needed: Sequence[Line]) -> None:
    command = [_NAME, fabric, *_arguments(needed)]
    # The process forks into the background when it is ready.
    done = subprocess.run(
        command, executable=program(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ProvisionError(
            f"{fabric}: the delay line does not start: {done.stderr.strip()}; run `hipsnet provision` again"
        )
