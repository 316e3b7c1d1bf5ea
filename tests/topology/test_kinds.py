# SPDX-License-Identifier: Apache-2.0
"""Everything that depends on a fabric's kind is asked of the kind; no other code compares kinds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from hipsnet.topology import KINDS, FabricKind

ROOT = Path(__file__).parents[2]
OWN = ROOT / "hipsnet" / "topology" / "kinds"
NAMES = {kind.kind_name() for kind in KINDS}
CLASSES = {kind.__name__ for kind in KINDS}


def comparisons(source: str) -> Iterator[int]:
    """The lines that compare something with a kind's name, or import a kind's class."""
    for node in ast.walk(ast.parse(source)):
        constants: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            constants = [
                item for side in sides for item in (side.elts if isinstance(side, ast.Tuple) else [side])
            ]
        elif isinstance(node, ast.MatchValue):
            constants = [node.value]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            constants = [key for key in node.value.keys if key is not None]
        elif isinstance(node, ast.ImportFrom) and CLASSES & {alias.name for alias in node.names}:
            yield node.lineno
        if any(isinstance(item, ast.Constant) and item.value in NAMES for item in constants):
            yield constants[0].lineno


def test_no_code_outside_the_kinds_compares_kinds() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for package in ("hipsnet", "orchestrator", "tools")
        for file in sorted((ROOT / package).rglob("*.py"))
        if OWN not in file.parents
        for line in comparisons(file.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'if fabric.kind == "bcube": pass',
        'x = 1 if "torus" != kind else 2',
        'x = kind in ("fattree", "other")',
        'x = {"bcube": 1}[kind]',
        'match kind:\n    case "torus":\n        pass',
        "from hipsnet.topology.kinds import BCube",
    ],
)
def test_a_planted_comparison_is_found(source: str) -> None:
    assert list(comparisons(source))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_is_one_module_of_its_own(kind: type) -> None:
    others = [other for other in KINDS if other is not kind]
    assert kind.__module__.startswith("hipsnet.topology.kinds.")
    assert kind.__module__ not in {other.__module__ for other in others}
    assert kind.__doc__


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_text_of_a_shape_names_every_parameter(kind: type[FabricKind]) -> None:
    """Ranks compare this text: a job whose ranks have different fabrics is refused."""
    text = str(kind.sample())
    assert all(f"{field}=" in text for field in kind.model_fields)
    assert len(text) < 120
