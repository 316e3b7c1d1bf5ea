# SPDX-License-Identifier: Apache-2.0
"""The background processes that a lab needs, whether they are running, and how to restart them."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass

from hipsnet.topology import Fabric, Topology
from orchestrator.lab import delay_line, soft_switch, state

SOFT_SWITCH, DELAY_LINE = "soft switch", "delay line"
_EFFECTS = {
    SOFT_SWITCH: "no frame crosses a switch",
    DELAY_LINE: "delayed cables pass no frames",
}


@dataclass(frozen=True)
class BackgroundProcess:
    """A process that a lab needs, "soft switch" or "delay line"; `pid` is None while it is not running."""

    name: str
    fabric: str
    pid: int | None

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""
        return self.pid is not None

    @property
    def report(self) -> str:
        """The problem and its remedy."""
        return f"{self.problem}; run `{self.remedy}`"

    def as_data(self) -> dict[str, object]:
        """Plain data for JSON."""
        restart = None if self.is_running else self.remedy
        return {"name": self.name, "running": self.is_running, "restart": restart}

    @property
    def problem(self) -> str:
        """A sentence on the effect of its absence."""
        return f"{self.name} of {self.fabric} is not running: {_EFFECTS[self.name]}"

    @property
    def remedy(self) -> str:
        """The command that starts it again; it changes nothing else."""
        return restart_command(self.fabric)


def needed(topology: Topology, fabric: Fabric) -> tuple[BackgroundProcess, ...]:
    """The processes that the lab needs at present, impaired delays included; none for a file that names hosts."""
    if topology.nodes != "lab":
        return ()
    found = []
    if soft_switch.is_wanted(topology, fabric):
        pids = [process.pid for process in soft_switch.running(fabric.name)]
        found.append(BackgroundProcess(SOFT_SWITCH, fabric.name, pids[0] if pids else None))
    pids = [process.pid for process in delay_line.running(fabric.name)]
    if pids or delay_line.lines(fabric):
        found.append(BackgroundProcess(DELAY_LINE, fabric.name, pids[0] if pids else None))
    return tuple(found)


def restart_command(fabric: str) -> str:
    """`hipsnet provision` with the file of the fabric, relative to the working directory if it is below that."""
    record = state.read(fabric)
    if record is None:
        return "hipsnet provision FILE"
    near = os.path.relpath(record.file)
    return f"hipsnet provision {shlex.quote(record.file if near.startswith('..') else near)}"
