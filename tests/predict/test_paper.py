# SPDX-License-Identifier: Apache-2.0
"""docs/paper.md is what tools/reproduce writes, and its numbers are the formulas of the literature."""

from __future__ import annotations

import pytest

from tools.reproduction.__main__ import DOCS, text
from tools.reproduction.theory import SCHEMES, factor


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "paper.md").read_text() == text(), "run tools/reproduce"


@pytest.mark.parametrize(("n", "d"), [(3, 2), (8, 2), (4, 3)])
def test_bandwidth_terms(n: int, d: int) -> None:
    servers = n**d
    flat = 2 * (servers - 1) / servers
    expected = [flat, flat, flat / d, flat / d, flat / d, flat / d / 2]
    assert [factor(scheme, n, d) for scheme in SCHEMES] == pytest.approx(expected, rel=1e-5)
