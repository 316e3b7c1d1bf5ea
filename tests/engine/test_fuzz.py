# SPDX-License-Identifier: Apache-2.0
"""Thousands of hostile streams and messages; `tools/fuzz TARGET` runs any number of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack.test_fuzz import fuzz


@pytest.mark.parametrize(("target", "runs"), [("core", 6000), ("tcp", 3000), ("verbs", 3000), ("xdp", 5000)])
def test_no_peer_causes_a_memory_error(tmp_path: Path, target: str, runs: int) -> None:
    """Not in the arrays of a call that has ended either: a program may have freed them."""
    reached = fuzz(tmp_path, target, runs)
    # Over verbs, large calls seldom end in so few runs: each of their writes needs a receive and a completion.
    for name in ("done", "eager", "early", "aborted", *(() if target == "verbs" else ("written",))):
        assert reached[name], reached
    assert sum(count > 0 for name, count in reached.items() if name.startswith("reason")) >= 4, reached
