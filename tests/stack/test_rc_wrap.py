# SPDX-License-Identifier: Apache-2.0
"""24-bit PSNs and message numbers wrap around without effect."""

from __future__ import annotations

from typing import Any

import pytest

from hipsnet.stack.roce.core import Core

MESSAGES = 100_000
HALF, WHOLE = 1 << 23, 1 << 24


@pytest.fixture(scope="module")
def wrap(core: Core) -> Any:
    core.ffi.cdef("u64 wrap_run(u64 messages, u32 psn, u32 msn, bool credits);")
    return core.lib.wrap_run


@pytest.mark.parametrize("credits", [False, True])
@pytest.mark.parametrize("psn", [0, HALF - 16, WHOLE - 16])
def test_psn(wrap: Any, psn: int, credits: bool) -> None:
    assert wrap(MESSAGES, psn, 0, credits) == MESSAGES


@pytest.mark.parametrize("psn", [5, WHOLE - 50_000])
@pytest.mark.parametrize("msn", [HALF - 50_000, WHOLE - 50_000])
def test_msn(wrap: Any, msn: int, psn: int) -> None:
    """With credits, which count from the MSN: at the wrap of a signed and of an unsigned number."""
    assert wrap(MESSAGES, psn, msn, True) == MESSAGES
