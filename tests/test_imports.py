# SPDX-License-Identifier: Apache-2.0
"""Imports run one way only, from a package to those that its line in `MAY_IMPORT` names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ERRORS, FAILURES, SETTINGS, UNITS = "hipsnet.errors", "hipsnet.failures", "hipsnet.settings", "hipsnet.units"
OWNERSHIP = "hipsnet.ownership"
MAY_IMPORT: dict[str, set[str]] = {
    "kernel": set(),
    ERRORS: set(),
    UNITS: {ERRORS},
    OWNERSHIP: {ERRORS},
    FAILURES: {ERRORS},
    SETTINGS: {ERRORS, UNITS},
    "hipsnet.topology": {ERRORS, UNITS},
    "hipsnet.node": {ERRORS, UNITS, OWNERSHIP, "hipsnet.topology", "kernel"},
    "hipsnet.stack": {ERRORS, OWNERSHIP, "kernel"},
    "hipsnet.transport": {ERRORS, "hipsnet.stack"},
    "hipsnet.engine": {ERRORS, "hipsnet.stack", "hipsnet.transport", "kernel"},
    "hipsnet.collective": {
        ERRORS,
        SETTINGS,
        UNITS,
        "hipsnet.engine",
        "hipsnet.topology",
        "hipsnet.transport",
    },
    "hipsnet.predict": {ERRORS, UNITS, "hipsnet.collective", "hipsnet.stack", "hipsnet.topology", "kernel"},
    # hipsnet/__init__.py, the face of the library
    "hipsnet": {ERRORS, FAILURES, SETTINGS, "hipsnet.collective"},
}
_LIBRARY = set(MAY_IMPORT)
_ORCHESTRATOR: dict[str, set[str]] = {
    "topology_file": set(),
    "help": set(),
    "views": set(),
    "lab": set(),
    "machine": {"lab"},
    "provision": {"lab"},
    "telemetry": {"lab", "provision"},
    "top": {"lab", "telemetry"},
    "exporter": {"lab", "telemetry"},
    "jobs": {"lab", "telemetry", "topology_file"},
    "pfc": {"jobs", "lab", "telemetry", "topology_file", "views"},
    "prediction": {"jobs", "topology_file", "views"},
}
_ORCHESTRATOR["commands"] = set(_ORCHESTRATOR)
_ORCHESTRATOR |= {"command_line": {"commands"}, "cli": {"command_line"}}
MAY_IMPORT |= {
    f"orchestrator.{package}": _LIBRARY | {f"orchestrator.{other}" for other in others}
    for package, others in _ORCHESTRATOR.items()
}
MAY_IMPORT["tools"] = set(MAY_IMPORT)
DIVIDED = ("hipsnet", "orchestrator")
PACKAGES = {package.partition(".")[0] for package in MAY_IMPORT} | {"tests"}


def forbidden_imports(root: Path) -> list[str]:
    """Every import below `root` that the table does not allow: `file:line: package imports package`."""
    found = []
    for package in sorted(PACKAGES - {"tests"}):
        for file in sorted((root / package).rglob("*.py")):
            module = file.relative_to(root).with_suffix("").parts
            importer = package_of(module)
            for line, name in imports(file.read_text(), module):
                imported = package_of(tuple(name.split(".")))
                if imported not in {importer, *MAY_IMPORT.get(importer, ())}:
                    found.append(f"{file.relative_to(root)}:{line}: {importer} imports {imported}")
    return found


def package_of(module: tuple[str, ...]) -> str:
    """The package of a module: `hipsnet.<name>`, `orchestrator.<name>`, or the top-level name."""
    return ".".join(module[:2]) if module[0] in DIVIDED and module[1:2] != ("__init__",) else module[0]


def imports(source: str, module: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """The modules of ours that a file imports, wherever in it, with the line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(module[: -node.level]) if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            # `from hipsnet import topology` names a package only together with what it imports.
            names = [f"{base}.{alias.name}" if base in DIVIDED else base for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in names if name.split(".")[0] in PACKAGES)


def test_imports_run_one_way() -> None:
    assert forbidden_imports(ROOT) == []


def test_the_table_itself_runs_one_way() -> None:
    seen: set[str] = set()
    while ready := [name for name in MAY_IMPORT if name not in seen and MAY_IMPORT[name] - {name} <= seen]:
        seen.update(ready)
    assert seen == set(MAY_IMPORT)


def test_every_package_is_in_the_table() -> None:
    packages = {
        f"{package}.{init.parent.name}"
        for package in DIVIDED
        for init in (ROOT / package).glob("*/__init__.py")
    }
    assert packages <= set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("file", "source", "finding"),
    [
        ("hipsnet/topology/a.py", "import hipsnet.node.links", "hipsnet.topology imports hipsnet.node"),
        ("hipsnet/topology/a.py", "from hipsnet import node", "hipsnet.topology imports hipsnet.node"),
        ("hipsnet/topology/a.py", "from ..node import links", "hipsnet.topology imports hipsnet.node"),
        (
            "hipsnet/node/a.py",
            "from orchestrator.provision.plan import x",
            "hipsnet.node imports orchestrator.provision",
        ),
        (
            "hipsnet/transport/a.py",
            "from hipsnet.topology import x",
            "hipsnet.transport imports hipsnet.topology",
        ),
        (
            "hipsnet/collective/a.py",
            "def f():\n    import hipsnet.node",
            "hipsnet.collective imports hipsnet.node",
        ),
        (
            "hipsnet/errors.py",
            "from hipsnet.settings import Settings",
            "hipsnet.errors imports hipsnet.settings",
        ),
        ("hipsnet/new/a.py", "import hipsnet.errors", "hipsnet.new imports hipsnet.errors"),
        ("kernel/a.py", "import hipsnet.errors", "kernel imports hipsnet.errors"),
        ("orchestrator/lab/a.py", "from tests import x", "orchestrator.lab imports tests"),
        ("orchestrator/lab/a.py", "import tools.bench", "orchestrator.lab imports tools"),
        (
            "orchestrator/lab/a.py",
            "from orchestrator.provision import plan",
            "orchestrator.lab imports orchestrator.provision",
        ),
        (
            "orchestrator/views/a.py",
            "from orchestrator import cli",
            "orchestrator.views imports orchestrator.cli",
        ),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, file: str, source: str, finding: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(f"import json\n{source}\n")
    line = 3 if "\n" in source else 2
    assert forbidden_imports(tmp_path) == [f"{file}:{line}: {finding}"]
