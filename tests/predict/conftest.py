# SPDX-License-Identifier: Apache-2.0
"""The simulator's library, plain or with the sanitizers that the environment names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hipsnet.predict.fluid import flows, library
from hipsnet.stack import building

FLAGS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session", autouse=True)
def sanitized() -> Iterator[None]:
    folder = os.environ.get("PREDICT_SANITIZERS")
    if folder is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "_FLAGS", (*building._FLAGS, *FLAGS))
        patch.delenv("LD_PRELOAD")  # otherwise the sanitizers instrument the compiler, too
        loaded = library.load(Path(folder))
        patch.setattr(flows, "library", lambda: loaded)
        yield
