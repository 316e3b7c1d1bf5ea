# SPDX-License-Identifier: Apache-2.0
"""Labs with unique names, removed completely after each test."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.provision import removal
from tests.lab.rig import BCUBE_2_2, Lab, run

_numbers = itertools.count()


@contextmanager
def labs(folder: Path) -> Iterator[Callable[..., Lab]]:
    """Make labs: `make(fabric, **sections)` writes a file; what it became is removed in the end."""
    if os.geteuid() != 0:
        pytest.skip("root: makes network namespaces")
    made: list[Lab] = []

    def make(fabric: dict[str, Any] = BCUBE_2_2, **sections: Any) -> Lab:
        name = f"t{os.getpid():x}x{next(_numbers)}"
        lab = Lab(name, folder / f"{name}.yaml", {})
        made.append(lab)
        lab.edit(version=1, name=name, fabric=fabric, **sections)
        return lab

    try:
        yield make
    finally:
        for lab in made:
            removal.destroy(lab.name)


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Make labs of the test's own."""
    with labs(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def make_shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Lab]]:
    """Make labs for all tests of a module that leave them as they are."""
    with labs(tmp_path_factory.mktemp("labs")) as make:
        yield make


@pytest.fixture
def foreign() -> Iterator[Callable[[str], str]]:
    """Make namespaces that are not hipsnet's; they are removed in the end."""
    made: list[str] = []

    def make(name: str) -> str:
        run("ip", "netns", "add", name)
        made.append(name)
        return name

    yield make
    for name in made:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
