# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown that repeat what the code says; the help and the READMEs take them from here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields

from hipsnet.settings import VARIABLES, Settings, Variable
from hipsnet.topology import reference

EXIT_CODES = {
    "0": "done",
    "1": "failed: nothing is provisioned, a path is broken, a result is wrong, a capability is missing, ...",
    "2": "bad input: a wrong file, option or argument; nothing was changed",
    "3": "`provision --dry-run --exit-code`: there are changes to make",
    "128 + n": "ended by signal n; 130: Ctrl-C, 141: the reader of a pipe ended",
    "other": "`run -- COMMAND`, `exec` and `shell`: the exit code of the program",
}


def settings() -> str:
    """The settings of the engine: flag of `hipsnet run`, variable, default, meaning."""
    rows = ((_flag(row), f"`{row.name}`", _default(row), _meaning(row)) for row in VARIABLES if row.flag)
    return _table(("flag", "variable", "default", "meaning"), rows)


def keys() -> str:
    """The keys of the topology file."""
    rows = ((f"`{row.key}`", row.default, row.allowed, row.meaning) for row in reference.rows())
    return _table(("key", "default", "allowed", "meaning"), rows)


def exit_codes() -> str:
    """The exit codes of all commands."""
    return _table(("code", "meaning"), EXIT_CODES.items())


def _flag(row: Variable) -> str:
    return f"`{row.flag.name}`" if row.flag else ""


def _default(row: Variable) -> str:
    default = next(field.default for field in fields(Settings) if field.name == row.field)
    assert default is not MISSING
    return row.kind.show(default) or "that of the fabric"


def _meaning(row: Variable) -> str:
    return row.flag.help if row.flag else ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [_line(head)]
    lines.append("|" + "---|" * lines[0].count(" |"))
    return "\n".join([*lines, *map(_line, rows)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
