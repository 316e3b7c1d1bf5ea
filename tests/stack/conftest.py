# SPDX-License-Identifier: Apache-2.0
"""The compiled core with its test interfaces, shared by the tests of the stack."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hipsnet.stack import building
from hipsnet.stack.ports import loop
from hipsnet.stack.roce import core as stack_core
from hipsnet.stack.roce.core import Core
from tests.stack.line import Line, line

_FACES = [str(path) for path in Path(__file__).parent.glob("*_face.c")]
_SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    shared = os.environ.get("STACK_SANITIZERS")  # the folder of test_rc_sanitized.py
    folder = Path(shared) if shared else tmp_path_factory.mktemp("core")
    with pytest.MonkeyPatch.context() as patch:
        if shared:
            patch.setattr(building, "_FLAGS", (*building._FLAGS, *_SANITIZERS))
            patch.delenv("LD_PRELOAD")  # otherwise the sanitizers instrument the compiler, too
        return stack_core.load(folder, sources=_FACES)


@pytest.fixture(scope="module")
def row() -> Iterator[Line]:
    """A server between two cables."""
    if os.geteuid() != 0:
        pytest.skip("root: makes network namespaces")
    loop.core()
    with line() as made:
        yield made
