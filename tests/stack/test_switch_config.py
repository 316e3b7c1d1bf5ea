# SPDX-License-Identifier: Apache-2.0
"""The soft switch refuses an inconsistent file, naming the line, before it opens any device."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.lab import soft_switch

HEAD = "counters /nonexistent/counters\nframe 1514\n"
BRIDGE, ROUTER = (f"switch l0g0 hipsnet-no-such-netns 0 {layer} 1000 100 10\n" for layer in ("l2", "l3"))
PORT = "port p0 1 02:48:00:00:00:01 0 0\n"


def refused(folder: Path, content: str) -> str:
    """The program's message for a file, without the file's name."""
    path = folder / "soft-switch.conf"
    path.write_text(content)
    command = [str(soft_switch.program()), "fabric", "digest", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    return done.stderr.removeprefix(f"{path}:").strip()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ROUTER + "route 0 0 0 02:48:00:00:00:02\n", "4: requires a `port` line above"),
        (BRIDGE + "mac 02:48:00:00:00:02 255\n", "4: requires a `port` line above"),
        (ROUTER + PORT + "route 0 0 1 02:48:00:00:00:02\n", "5: not a number, or out of range"),
        (PORT, "3: requires a `switch` line above"),
        (BRIDGE + PORT + "mac 00:00:00:00:00:00 0\n", "5: not the MAC address of an interface"),
        (BRIDGE + PORT.replace("02:", "03:", 1), "4: not the MAC address of an interface"),
        (BRIDGE + PORT + "mac 02:48:00:00:00 0\n", "5: not a MAC address"),
        (ROUTER + PORT + "route 0 0\n", "5: a route requires a next hop"),
        ("", "2: the file has no `switch` or no `frame` line"),
    ],
)
def test_inconsistent_thresholds_are_refused(tmp_path: Path, content: str, message: str) -> None:
    assert refused(tmp_path, HEAD + content) == message
