"""Labs with a name of their own, and nothing left of them afterwards."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator import removal
from tests.lab.rig import BCUBE_2_2, Lab, run

_numbers = itertools.count()


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    """Make labs: `make_lab(fabric, **sections)` writes a file; what it became is removed in the end."""
    if os.geteuid() != 0:
        pytest.skip("root: makes network namespaces")
    made: list[Lab] = []

    def make(fabric: dict[str, Any] = BCUBE_2_2, **sections: Any) -> Lab:
        name = f"t{os.getpid():x}x{next(_numbers)}"
        lab = Lab(name, tmp_path / f"{name}.yaml", {})
        made.append(lab)
        lab.edit(version=1, name=name, fabric=fabric, **sections)
        return lab

    yield make
    for lab in made:
        removal.destroy(lab.name)


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
