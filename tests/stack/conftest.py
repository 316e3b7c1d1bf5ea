"""The compiled core, shared by the tests of the stack."""

from __future__ import annotations

import os

import pytest

from hipsnet.stack import building
from hipsnet.stack import core as stack_core
from hipsnet.stack.core import Core

_SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    with pytest.MonkeyPatch.context() as patch:
        if "STACK_SANITIZERS" in os.environ:  # set by test_rc_sanitized.py
            patch.setattr(building, "_FLAGS", (*building._FLAGS, *_SANITIZERS))
        return stack_core.load(tmp_path_factory.mktemp("core"))
