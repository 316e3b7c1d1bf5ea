# SPDX-License-Identifier: Apache-2.0
"""The fabrics on this machine, found by name or by topology file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from hipsnet.errors import InputError, ProvisionError
from hipsnet.node import pins
from orchestrator.lab import state
from orchestrator.lab.namespaces import marked_fabrics, namespace_name, places

_NAME = re.compile(r"[a-z][a-z0-9-]{0,15}")
_NAME_LINE = re.compile(
    r"""^["']?name["']?\s*:\s*["']?([a-z][a-z0-9-]{0,15})["']?\s*(?:\#.*)?$""", re.MULTILINE
)


def fabrics() -> tuple[str, ...]:
    """Every fabric that has left a trace: namespaces, pins, or a record; sorted."""
    return tuple(sorted({*marked_fabrics(), *pins.pinned_fabrics(), *state.fabrics()}))


@dataclass(frozen=True)
class Presence:
    """The parts of a fabric that exist on this machine.

    `file` is the topology file that it was provisioned from, None if its record is lost. Nodes are `present`,
    `missing` (recorded, without a namespace), or `foreign`: a namespace that hipsnet did not make has the name.
    """

    name: str
    file: str | None
    present: tuple[str, ...]
    missing: tuple[str, ...]
    foreign: tuple[str, ...]

    @property
    def state(self) -> Literal["complete", "incomplete", "foreign", "host"]:
        """`host`: servers of a fabric of real machines that were provisioned on this one."""
        if self.foreign:
            return "foreign"
        if not self.present and not self.missing:
            return "host"
        return "incomplete" if self.missing or self.file is None else "complete"


def presence(name: str) -> Presence:
    """Compare the namespaces of a fabric with its record."""
    record, found = state.read(name), places(name)
    ours = tuple(node for node, place in found.items() if place.standing == "ours")
    foreign = tuple(
        namespace_name(name, node) for node, place in found.items() if place.standing == "foreign"
    )
    taken = {node for node, place in found.items() if place.standing != "leftover"}
    missing = tuple(node for node in record.nodes if node not in taken) if record else ()
    return Presence(name, record.file if record else None, ours, missing, foreign)


def not_here(name: str, asked: str) -> ProvisionError:
    """The error for a fabric that is not on this machine; `asked` is its name or file."""
    hint = "" if name == asked else f"; `hipsnet provision {asked}` makes it"
    return ProvisionError(
        f"{name} is not provisioned{hint}; fabrics on this machine: {', '.join(fabrics()) or 'none'}"
    )


def _name_in(text: str) -> str | None:
    """The name in a topology file, which may have become invalid."""
    try:
        content = yaml.safe_load(text)
        name = content.get("name") if isinstance(content, dict) else None
    except (yaml.YAMLError, RecursionError):
        match = _NAME_LINE.search(text)
        name = match.group(1) if match else None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def find_fabric(text: str) -> str:
    """Return the fabric called `text`, or that of the topology file `text`, which may be edited, wrong or lost.

    The name in the file takes precedence over the fabric that was provisioned from this path. Raises InputError
    for other text.
    """
    path = Path(text)
    if not path.is_file() and _NAME.fullmatch(text):
        return text
    known = fabrics()
    name = _name_in(path.read_text(errors="replace")) if path.is_file() else None
    if name in known:
        return name
    records = {name: state.read(name) for name in known}
    by_path = [name for name, record in records.items() if record and record.file == str(path.resolve())]
    if len(by_path) == 1:
        return by_path[0]
    if name is not None:
        return name
    raise InputError(
        f"{text} is neither the name of a fabric nor its topology file; "
        f"fabrics on this machine: {', '.join(known) or 'none'}"
    )
