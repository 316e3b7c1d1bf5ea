# SPDX-License-Identifier: Apache-2.0
"""Random collectives on real communicators; `python -m tests.collective.random_calls 10000` runs more of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.collective import random_calls
from tests.collective.random_calls import run_job


@pytest.mark.parametrize("number", range(4))
def test_every_element_is_what_numpy_computes(number: int) -> None:
    run_job(seed=0, number=number, calls=10)


def test_a_result_that_is_wrong_in_one_bit_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle can fail: here numpy adds in another order."""
    monkeypatch.setitem(random_calls.COMBINE, "sum", np.subtract)
    with pytest.raises(AssertionError, match="on rank"):
        for number in range(10):
            run_job(seed=0, number=number, calls=5)
