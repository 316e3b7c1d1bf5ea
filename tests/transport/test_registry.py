# SPDX-License-Identifier: Apache-2.0
"""Transports by name: every setting has one, and the error for a missing library names its package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hipsnet
from hipsnet import settings
from hipsnet.errors import CapabilityError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.options import Options
from hipsnet.transport.registry import TRANSPORTS, open_transport


def test_every_transport_that_can_be_set_can_be_opened() -> None:
    assert tuple(TRANSPORTS) == settings.TRANSPORTS


def test_the_flag_describes_every_transport_as_the_registry_does() -> None:
    (flag,) = (variable.flag for variable in settings.VARIABLES if variable.field == "transport")
    assert flag is not None
    for name, entry in TRANSPORTS.items():
        assert f"{name} ({entry.summary})" in flag.help


def test_the_readme_has_a_line_for_every_transport() -> None:
    readme = (Path(hipsnet.__path__[0]) / "transport" / "README.md").read_text()
    rows = [line for line in readme.splitlines() if line.startswith("| `") and ".py`" not in line]
    expected = [f"| `{name}` | {entry.summary} | {entry.requires} |" for name, entry in TRANSPORTS.items()]
    assert [row for row in rows if row in expected] == expected


@pytest.mark.parametrize("name", TRANSPORTS)
def test_an_entry_names_a_module_and_a_class_that_opens(name: str) -> None:
    entry = TRANSPORTS[name]
    tree = ast.parse((Path(hipsnet.__path__[0]).parent / f"{entry.module.replace('.', '/')}.py").read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == entry.name)
    assert "open" in {method.name for method in found.body if isinstance(method, ast.FunctionDef)}
    assert entry.requires


def test_settings_and_registry_import_no_transport() -> None:
    code = (
        "import sys, hipsnet.settings, hipsnet.transport.registry\n"
        "print([name for name in sys.modules if name.endswith('.transport') or 'pyverbs' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['hipsnet.transport']"


def test_without_pyverbs_the_verbs_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("hipsnet.transport.verbs")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("pyverbs.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "pyverbs", None)
    greeting = Greeting(0, 2, "same", "token")
    with pytest.raises(CapabilityError, match="apt install python3-pyverbs"):
        open_transport("verbs", greeting, Options(29490))
    open_transport("tcp", greeting, Options(29490)).close()
