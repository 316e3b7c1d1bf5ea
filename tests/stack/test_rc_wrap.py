"""Counters of 24 bits wrap around, and nobody notices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hipsnet.stack import core as stack_core


@pytest.fixture(scope="module")
def wrap(tmp_path_factory: pytest.TempPathFactory) -> Any:
    source = str(Path(__file__).parent / "wrap.c")
    core = stack_core.load(tmp_path_factory.mktemp("wrap"), "wrap", sources=[source])
    core.ffi.cdef("u64 wrap_run(u64 messages, u32 psn, bool credits);")
    return core.lib.wrap_run


@pytest.mark.parametrize("credits", [False, True])
@pytest.mark.parametrize("psn", [0, 0x7FFFF0, 0xFFFFF0])
def test_psn(wrap: Any, psn: int, credits: bool) -> None:
    assert wrap(100_000, psn, credits) == 100_000


def test_msn_and_psn_all_the_way_round(wrap: Any) -> None:
    """More messages than MSNs, with credits, which count from the MSN."""
    messages = (1 << 24) + 1000
    assert wrap(messages, 5, True) == messages
