# SPDX-License-Identifier: Apache-2.0
"""What exports memory becomes an array on the same memory; what would be copied is refused."""

from __future__ import annotations

import array

import numpy as np
import pytest
import torch

from hipsnet.collective.memory import as_array
from hipsnet.errors import InputError


@pytest.mark.parametrize(
    "memory",
    [
        np.zeros((2, 3), np.float32),
        torch.zeros(6),
        memoryview(bytearray(24)).cast("f"),
        array.array("f", [0] * 6),
    ],
    ids=["numpy", "dlpack", "memoryview", "array"],
)
def test_the_same_memory_and_writable(memory: object) -> None:
    made = as_array(memory)
    assert made.dtype == np.float32
    assert made.flags.writeable
    made.reshape(-1)[5] = 7
    again = as_array(memory).reshape(-1)
    assert again[5] == 7
    assert again.ctypes.data == made.ctypes.data


@pytest.mark.parametrize("memory", [[1.0, 2.0], "text", 3, torch.zeros(3, requires_grad=True)])
def test_what_cannot_be_shared_is_refused(memory: object) -> None:
    with pytest.raises(InputError, match=f"not {type(memory).__name__}"):
        as_array(memory)
