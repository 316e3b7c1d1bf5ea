# SPDX-License-Identifier: Apache-2.0
"""Parts of the documentation that repeat the code agree with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hipsnet.errors
import hipsnet.topology
from hipsnet.settings import VARIABLES
from hipsnet.topology import explain, reference
from tools.documentation.parts import ROOT, generated

PARTS = generated()


@pytest.mark.parametrize("path", PARTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_documentation_is_up_to_date(path: Path) -> None:
    assert path.read_text() == PARTS[path], "run tools/docs"


def test_the_reference_has_every_public_name() -> None:
    text = PARTS[ROOT / "docs/api.md"]
    headings = set(re.findall(r"^### (?:class )?(\w+)", text, re.MULTILINE))
    errors = {name for name in vars(hipsnet.errors) if name.endswith("Error")}
    assert {"init", "Communicator", "Settings", *hipsnet.topology.__all__, *errors} <= headings
    assert "#### Communicator.all_reduce\n" in text and "Raises InputError" in text


def test_the_tables_have_every_setting_and_every_key() -> None:
    readme = (ROOT / "orchestrator/README.md").read_text()
    for row in VARIABLES:
        assert row.flag is None or f"| `{row.flag.name}` | `{row.name}` | " in readme
    keys = [row.key for row in reference.rows()]
    assert len(keys) == len(set(keys))
    named = {part for key in keys for part in re.findall(r"[a-z_]+", key)}
    for section in (explain.json_schema(), *explain.json_schema()["$defs"].values()):
        assert set(section.get("properties", ())) <= named
    assert all(row.meaning for row in reference.rows())
