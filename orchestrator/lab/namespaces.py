# SPDX-License-Identifier: Apache-2.0
"""The one-machine lab: the namespace of each node, and which nodes of a fabric exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hipsnet.errors import ProvisionError
from hipsnet.node import namespace
from orchestrator.lab import state

Standing = Literal["ours", "leftover", "foreign"]
_MARK = re.compile(r"hipsnet ([a-z][a-z0-9-]*) (\S+)")


def namespace_name(fabric: str, node: str) -> str:
    """The name of a node's namespace, as in `ip netns`."""
    return f"{fabric}-{node}"


def mark(fabric: str, node: str) -> str:
    """The alias of the loopback that marks a namespace of hipsnet."""
    return f"hipsnet {fabric} {node}"


@dataclass(frozen=True)
class Place:
    """A namespace that has the name of one of a fabric's nodes.

    "ours" carries our mark; a "leftover" is a name without a namespace, of a run that was killed while it
    made the node (our record says so); everything else is "foreign" and is never touched.
    """

    node: str
    standing: Standing


def places(fabric: str, expected: Iterable[str] = ()) -> dict[str, Place]:
    """By node: the namespaces of hipsnet, and others with the name of an `expected` or recorded node."""
    record = state.read(fabric)
    recorded = set(record.nodes) if record else set()
    interesting = recorded | set(expected)
    found = {}
    prefix = f"{fabric}-"
    for name in namespace.names():
        if not name.startswith(prefix):
            continue
        node = name.removeprefix(prefix)
        standing = _standing(fabric, node, node in recorded)
        if standing == "ours" or node in interesting:
            found[node] = Place(node, standing)
    return found


def _standing(fabric: str, node: str, is_recorded: bool) -> Standing:
    name = namespace_name(fabric, node)
    if namespace.is_leftover(name):
        return "leftover" if is_recorded else "foreign"
    return "ours" if namespace.mark_of(name) == mark(fabric, node) else "foreign"


def require(fabric: str, nodes: Iterable[str], file: str | None = None) -> None:
    """Raise ProvisionError unless all these nodes of a fabric are provisioned; it names the topology file.

    `file` is the topology file given by the user; by default the one that the fabric was last provisioned from.
    """
    expected = list(nodes)
    there = set(namespace.names())
    missing = [node for node in expected if not _is_ours(fabric, node, there)]
    if not missing:
        return
    record = state.read(fabric)
    file = file or (record.file if record else "FILE")
    what = "not provisioned" if len(missing) == len(expected) else "only partly provisioned"
    names = f"{', '.join(missing[:4])}{', ...' if len(missing) > 4 else ''}"
    verb = "is" if len(missing) == 1 else "are"
    raise ProvisionError(f"{fabric} is {what}: {names} {verb} missing; run `hipsnet provision {file}`")


def _is_ours(fabric: str, node: str, there: set[str]) -> bool:
    name = namespace_name(fabric, node)
    return name in there and namespace.mark_of(name) == mark(fabric, node)


def marked_fabrics() -> tuple[str, ...]:
    """The fabrics that have namespaces here, according to the marks of the namespaces, sorted."""
    found = set()
    for name in namespace.names():
        match = _MARK.fullmatch(namespace.mark_of(name) or "")
        if match and name == namespace_name(*match.groups()):
            found.add(match.group(1))
    return tuple(sorted(found))


def marked_node(fabric: str, text: str | None) -> str | None:
    """The node that the alias of a loopback names, if the node belongs to this fabric."""
    match = _MARK.fullmatch(text or "")
    return match.group(2) if match and match.group(1) == fabric else None
