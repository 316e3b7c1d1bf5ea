# SPDX-License-Identifier: Apache-2.0
"""The C libraries of the verbs wire: the engine with the wire, and libibverbs for it where that is installed."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import kernel
from hipsnet.engine.library import load
from hipsnet.errors import CapabilityError
from hipsnet.stack import building
from hipsnet.stack.roce.core import Core

HERE = Path(__file__).parent
SOURCES = tuple(HERE / f"verbs{part}.c" for part in ("", "_flow", "_regions", "_send", "_receive", "_watch"))
HEADERS = (HERE / "verbs.h", HERE / "verbs_ibverbs.h")


@cache
def library() -> Core:
    """The engine with this wire. Raises CapabilityError if it cannot be compiled."""
    core = load(kernel.cache_folder(), "engine_verbs", SOURCES, HEADERS)
    with suppress(CapabilityError):  # the reason is logged when a wire is opened
        libibverbs(core)
    return core


@cache
def libibverbs(core: Core) -> Any:
    """The library of verbs_ibverbs.c. Raises CapabilityError if it cannot be compiled."""
    source = str(HERE / "verbs_ibverbs.c")
    path = building.library("verbs_ibverbs", [source], kernel.cache_folder(), ("ibverbs",))
    return core.ffi.dlopen(str(path))
