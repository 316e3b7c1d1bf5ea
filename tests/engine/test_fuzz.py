# SPDX-License-Identifier: Apache-2.0
"""Thousands of hostile streams and messages; `tools/fuzz TARGET` runs any number of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack.test_fuzz import fuzz


@pytest.mark.parametrize(("target", "runs"), [("core", 3000), ("tcp", 1500), ("verbs", 1000), ("xdp", 1500)])
def test_no_peer_causes_a_memory_error(tmp_path: Path, target: str, runs: int) -> None:
    """Not in the arrays of a call that has ended either: a program may have freed them."""
    reached = fuzz(tmp_path, target, runs)
    for name in ("done", "eager", "early", "written", "aborted"):
        assert reached[name], reached
    assert sum(count > 0 for name, count in reached.items() if name.startswith("reason")) >= 4, reached
