# SPDX-License-Identifier: Apache-2.0
"""Which fabrics there are on this machine, and which one a user means."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from hipsnet.errors import InputError
from hipsnet.node import pins
from orchestrator.lab import state
from orchestrator.lab.namespaces import marked_fabrics

_NAME = re.compile(r"[a-z][a-z0-9-]{0,15}")
_NAME_LINE = re.compile(
    r"""^["']?name["']?\s*:\s*["']?([a-z][a-z0-9-]{0,15})["']?\s*(?:\#.*)?$""", re.MULTILINE
)


def fabrics() -> tuple[str, ...]:
    """Every fabric that has left a trace: namespaces, pins, or a record; sorted."""
    return tuple(sorted({*marked_fabrics(), *pins.pinned_fabrics(), *state.fabrics()}))


def _name_in(text: str) -> str | None:
    """The name that a topology file gives, also one that is no valid file any more."""
    try:
        content = yaml.safe_load(text)
        name = content.get("name") if isinstance(content, dict) else None
    except (yaml.YAMLError, RecursionError):
        match = _NAME_LINE.search(text)
        name = match.group(1) if match else None
    return name if isinstance(name, str) and _NAME.fullmatch(name) else None


def find_fabric(text: str) -> str:
    """The fabric that `text` means: its name, or a topology file, which may be edited, wrong or lost.

    The name that the file says counts; else the fabric that was provisioned from a file at this path. Raises
    InputError if it is neither.
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
        f"{text}: wanted a fabric's name or its topology file, found neither; "
        f"fabrics on this machine: {', '.join(known) or 'none'}"
    )
