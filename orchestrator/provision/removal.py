# SPDX-License-Identifier: Apache-2.0
"""Removing nodes of the lab, and whole fabrics: processes, pins, namespaces and state."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hipsnet.errors import ProvisionError
from hipsnet.node import namespace, pins
from hipsnet.stack.xsk import handover
from orchestrator.lab import delay_line, processes, soft_switch, state
from orchestrator.lab.locking import locked
from orchestrator.lab.namespaces import marked_node, namespace_name, places
from orchestrator.provision import hosts


@dataclass(frozen=True)
class Removal:
    """The result of a destroy: nodes removed, servers of this host restored, processes ended, state removed.

    `left_alone` are namespaces that hipsnet did not make, with the name of a node; `elsewhere` are servers that
    were applied inside another network namespace, and have to be restored there.
    """

    fabric: str
    nodes: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    processes: int = 0
    left_alone: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    had_state: bool = False


def destroy(fabric: str, node: str | None = None) -> Removal:
    """Remove a fabric completely, using the kernel's state and the record but no topology file.

    With `node`, only restore the part of that server on this host. Raises ProvisionError if a process in one
    of the namespaces cannot be ended.
    """
    with locked(fabric):
        had_state = state.record_path(fabric).exists()
        restored = hosts.restore(fabric, node)
        if node is not None:
            return Removal(fabric, restored=restored)
        found = places(fabric)
        nodes = tuple(name for name, place in found.items() if place.standing != "foreign")
        foreign = tuple(namespace_name(fabric, name) for name in found if name not in nodes)
        delay_line.stop(fabric)
        soft_switch.stop(fabric)
        pids = [pid for pid, _ in residents(fabric)]
        end_residents(fabric, pids)
        remove_nodes(fabric, nodes)
        handover.remove_sockets(fabric)
        elsewhere = hosts.remembered_elsewhere(fabric)
        for name in set(pins.pinned_nodes(fabric)) - set(elsewhere):
            pins.remove_pins(fabric, name)
        if elsewhere:
            state.forget(fabric)
        else:
            state.remove(fabric)
    return Removal(fabric, nodes, restored, len(pids), foreign, elsewhere, had_state)


def is_something(done: Removal) -> bool:
    """Whether a destroy found anything of its fabric."""
    return done != Removal(done.fabric)


def sentence(done: Removal) -> str:
    """The result of a destroy in a sentence."""
    parts = [f"{len(done.nodes)} nodes removed"] if done.nodes else []
    parts += [f"{', '.join(done.restored)} restored"] if done.restored else []
    parts += [f"{done.processes} processes ended"] if done.processes else []
    parts += ["its record removed"] if done.had_state and not done.nodes else []
    parts += [f"not made by hipsnet and left alone: {', '.join(done.left_alone)}"] if done.left_alone else []
    parts += [f"to be destroyed in its own namespace: {', '.join(done.elsewhere)}"] if done.elsewhere else []
    return f"{done.fabric}: {'; '.join(parts) or 'nothing to remove'}"


def remove_nodes(fabric: str, nodes: Iterable[str]) -> None:
    """End the processes of these nodes, then remove their pins and namespaces."""
    going = set(nodes)
    if going:
        end_residents(fabric, [pid for pid, node in residents(fabric) if node in going])
    for node in sorted(going):
        pins.remove_pins(fabric, node)
        namespace.delete(namespace_name(fabric, node))


def end_residents(fabric: str, pids: Sequence[int]) -> None:
    """End these processes; ProvisionError naming those that cannot be ended."""
    stubborn = processes.end(pids)
    if stubborn:
        raise ProvisionError(
            f"{fabric}: processes {', '.join(map(str, stubborn))} run in its namespaces and cannot be "
            "ended; end them and run this again"
        )


def residents(fabric: str) -> Iterator[tuple[int, str]]:
    """The processes in namespaces that carry a mark of the fabric, each with its node.

    Processes in a namespace whose name was deleted are included.
    """
    nodes: dict[tuple[int, int], str | None] = {}
    own = os.stat("/proc/thread-self/ns/net")  # noqa: PTH116
    nodes[own.st_dev, own.st_ino] = None
    for found in processes.inhabitants():
        if found.namespace not in nodes:
            nodes[found.namespace] = _node_of(fabric, found.pid)
        node = nodes[found.namespace]
        if node is not None:
            yield found.pid, node


def _node_of(fabric: str, pid: int) -> str | None:
    with contextlib.suppress(OSError):
        handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return marked_node(fabric, namespace.mark_of_handle(handle))
        finally:
            os.close(handle)
    return None
