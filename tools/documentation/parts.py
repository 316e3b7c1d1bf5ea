# SPDX-License-Identifier: Apache-2.0
"""Every generated part, by file: whole files, and tables between two markers of a README."""

from __future__ import annotations

from pathlib import Path

from orchestrator.help import tables
from tools.documentation import api, kinds

ROOT = Path(__file__).parents[2]
_TABLES = {
    ROOT / "hipsnet/topology/README.md": {"keys": tables.keys, "kinds": kinds.table},
    ROOT / "orchestrator/README.md": {"settings": tables.settings, "exit codes": tables.exit_codes},
}


def generated() -> dict[Path, str]:
    """The text of every file that has a generated part. Raises ValueError for a README without its markers."""
    files = {ROOT / "docs/api.md": api.text()}
    for path, parts in _TABLES.items():
        text = path.read_text()
        for name, make in parts.items():
            begin, end = f"<!-- {name}: written by tools/docs -->", f"<!-- end of {name} -->"
            before, found, rest = text.partition(begin)
            _, found_end, after = rest.partition(end)
            if not found or not found_end:
                raise ValueError(f"{path}: no markers for the table {name!r}: {begin} ... {end}")
            text = f"{before}{begin}\n{make()}\n{end}{after}"
        files[path] = text
    return files
