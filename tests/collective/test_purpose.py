# SPDX-License-Identifier: Apache-2.0
"""The number of a collective says which one it is."""

from __future__ import annotations

import pytest

from hipsnet.collective.collectives import NAMES, Collective
from hipsnet.collective.purpose import name_of, purpose_of


def test_different_collectives_have_different_numbers() -> None:
    numbers = [purpose_of(Collective(name)) for name in NAMES]
    numbers += [purpose_of(Collective("broadcast", root)) for root in (1, 255, 100_000)]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("collective", "operation", "name"),
    [
        (Collective(), "sum", "sum"),
        (Collective("broadcast", 3), "copy", "broadcast from rank 3"),
        (Collective("reduce", 300), "max", "reduce (max) to rank 300"),
        (Collective("all_gather"), "copy", "all_gather"),
        (Collective("reduce_scatter"), "mean", "reduce_scatter (mean)"),
    ],
)
def test_the_number_gives_the_name(collective: Collective, operation: str, name: str) -> None:
    assert name_of(purpose_of(collective), operation) == name


def test_any_number_has_a_name() -> None:
    assert name_of(0xFFFFFFFF, "sum") == "collective of kind 255"
