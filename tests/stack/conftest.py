"""The compiled core, shared by the tests of the stack."""

from __future__ import annotations

import pytest

from hipsnet.stack import core as stack_core
from hipsnet.stack.core import Core


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    return stack_core.load(tmp_path_factory.mktemp("core"))
