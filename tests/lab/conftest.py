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
    """Make labs: `make(fabric, **sections)` writes a file; the lab is destroyed after the test."""
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
    """Make labs for one test."""
    with labs(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def make_shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Lab]]:
    """Make labs shared by the tests of a module, which do not change them."""
    with labs(tmp_path_factory.mktemp("labs")) as make:
        yield make


@pytest.fixture
def foreign() -> Iterator[Callable[[str], str]]:
    """Make namespaces outside hipsnet; they are removed after the test."""
    made: list[str] = []

    def make(name: str) -> str:
        run("ip", "netns", "add", name)
        made.append(name)
        return name

    yield make
    for name in made:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
