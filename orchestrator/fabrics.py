"""Which fabrics there are on this machine, and which one a user means."""

from __future__ import annotations

import re
from pathlib import Path

from hipsnet.errors import InputError
from hipsnet.node import pins
from orchestrator import state
from orchestrator.lab import marked_fabrics

_NAME = re.compile(r"[a-z][a-z0-9-]{0,15}")
_NAME_LINE = re.compile(
    r"""^["']?name["']?\s*:\s*["']?([a-z][a-z0-9-]{0,15})["']?\s*(?:\#.*)?$""", re.MULTILINE
)


def fabrics() -> tuple[str, ...]:
    """Every fabric that has left a trace: namespaces, pins, or a record; sorted."""
    return tuple(sorted({*marked_fabrics(), *pins.pinned_fabrics(), *state.fabrics()}))


def find_fabric(text: str) -> str:
    """The fabric that `text` means: its name, or a topology file, which may be edited, wrong or lost.

    The name that the file says counts; else the fabric that was provisioned from a file at this path. Raises
    InputError if it is neither.
    """
    path = Path(text)
    if not path.is_file() and _NAME.fullmatch(text):
        return text
    known = fabrics()
    match = _NAME_LINE.search(path.read_text(errors="replace")) if path.is_file() else None
    if match and match.group(1) in known:
        return match.group(1)
    records = {name: state.read(name) for name in known}
    by_path = [name for name, record in records.items() if record and record.file == str(path.resolve())]
    if len(by_path) == 1:
        return by_path[0]
    if match:
        return match.group(1)
    raise InputError(
        f"{text}: wanted a fabric's name or its topology file, found neither; "
        f"fabrics on this machine: {', '.join(known) or 'none'}"
    )
