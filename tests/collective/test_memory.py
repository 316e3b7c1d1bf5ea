# SPDX-License-Identifier: Apache-2.0
"""Objects that export memory become arrays on the same memory; objects that need a copy are refused."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hipsnet.collective.memory import as_array
from hipsnet.errors import InputError


def tensor(size: int, **options: Any) -> object:
    """A PyTorch tensor of zeros; importing PyTorch takes longer than collecting all tests."""
    import torch

    return torch.zeros(size, **options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros((2, 3), np.float32),
        lambda: tensor(6),
        lambda: memoryview(bytearray(24)).cast("f"),
        lambda: array.array("f", [0] * 6),
    ],
    ids=["numpy", "dlpack", "memoryview", "array"],
)
def test_the_same_memory_and_writable(make: Callable[[], object]) -> None:
    memory = make()
    made = as_array(memory)
    assert made.dtype == np.float32
    assert made.flags.writeable
    made.reshape(-1)[5] = 7
    again = as_array(memory).reshape(-1)
    assert again[5] == 7
    assert again.ctypes.data == made.ctypes.data


@pytest.mark.parametrize(
    "make", [lambda: [1.0, 2.0], lambda: "text", lambda: 3, lambda: tensor(3, requires_grad=True)]
)
def test_what_cannot_be_shared_is_refused(make: Callable[[], object]) -> None:
    memory = make()
    with pytest.raises(InputError, match=f"not {type(memory).__name__}"):
        as_array(memory)
