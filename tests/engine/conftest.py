# SPDX-License-Identifier: Apache-2.0
"""The engine's library with the tests' own C, plain or with the sanitizers that the environment names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import kernel
from hipsnet.engine import library
from hipsnet.engine.wire import verbs_library, xdp
from hipsnet.stack import building
from hipsnet.stack.roce.core import Core

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def scripted() -> Core:
    """Cores on wires in memory (scripted.h)."""
    return load("scripted", [HERE / "scripted.c"], [HERE / "scripted.h"])


@pytest.fixture(scope="session")
def xdp_scripted() -> Core:
    """Cores on XDP wires that a link in memory joins (xdp_world.h)."""
    sources = [*xdp.SOURCES, HERE / "xdp_world.c"]
    headers = [*xdp.HEADERS, HERE / "scripted.h", HERE / "xdp_world.h"]
    return load("xdp_scripted", sources, headers, xdp.LIBRARIES)


@pytest.fixture(scope="session")
def verbs_rig() -> Core:
    """The verbs wire on devices in memory (verbs_rig.h)."""
    sources, headers = (
        [*verbs_library.SOURCES, HERE / "verbs_rig.c"],
        [*verbs_library.HEADERS, HERE / "verbs_rig.h"],
    )
    return load("verbs_rig", sources, headers)


def load(name: str, sources: list[Path], headers: list[Path], link: Sequence[str] = ()) -> Core:
    folder = Path(os.environ.get("ENGINE_SANITIZERS") or kernel.cache_folder())
    with pytest.MonkeyPatch.context() as patch:
        if "ENGINE_SANITIZERS" in os.environ:
            flags = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
            patch.setattr(building, "_FLAGS", (*building._FLAGS, *flags))
            patch.delenv("LD_PRELOAD")  # otherwise the sanitizers instrument the compiler, too
        return library.load(folder, name, sources, headers, link)
