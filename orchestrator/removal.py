"""Removing nodes of the lab, and whole fabrics: processes, pins, namespaces, memory of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from hipsnet.errors import ProvisionError
from hipsnet.node import namespace, pins
from orchestrator import processes, state
from orchestrator.lab import marked_fabrics, marked_node, namespace_name, places
from orchestrator.locking import locked


@dataclass(frozen=True)
class Removal:
    """What a destroy did: nodes removed, processes ended, and foreign namespaces that it left alone."""

    fabric: str
    nodes: tuple[str, ...]
    processes: int
    left_alone: tuple[str, ...]


def fabrics() -> tuple[str, ...]:
    """Every fabric that has left a trace on this machine: namespaces, pins, or a record."""
    return tuple(sorted({*marked_fabrics(), *pins.pinned_fabrics(), *state.fabrics()}))


def destroy(fabric: str) -> Removal:
    """Remove everything of a fabric, going by the kernel and the record, not by a file.

    Raises ProvisionError if a process in one of its namespaces cannot be ended.
    """
    with locked(fabric):
        found = places(fabric)
        nodes = tuple(node for node, place in found.items() if place.standing != "foreign")
        ended = remove_nodes(fabric, nodes)
        pins.remove_pins(fabric)
        state.remove(fabric)
        foreign = tuple(
            namespace_name(fabric, n) for n, place in found.items() if place.standing == "foreign"
        )
    return Removal(fabric, nodes, ended, foreign)


def remove_nodes(fabric: str, nodes: Iterable[str]) -> int:
    """End the nodes' processes, then remove their pins and namespaces; returns how many processes there were.

    Processes in namespaces of ours whose name was taken away behind our back are ended too.
    """
    going = set(nodes)
    pids = [pid for pid, node in _inhabitants(fabric) if node in going or not _is_named(fabric, node)]
    stubborn = processes.end(pids)
    if stubborn:
        raise ProvisionError(
            f"{fabric}: processes {', '.join(map(str, stubborn))} live in its namespaces and cannot be ended; "
            "end them and run this again"
        )
    for node in sorted(going):
        pins.remove_pins(fabric, node)
        namespace.delete(namespace_name(fabric, node))
    return len(pids)


def _is_named(fabric: str, node: str) -> bool:
    return namespace_name(fabric, node) in namespace.names()


def _inhabitants(fabric: str) -> Iterable[tuple[int, str]]:
    """The processes in namespaces that carry a mark of the fabric, each with its node."""
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
