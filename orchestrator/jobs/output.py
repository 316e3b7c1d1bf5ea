# SPDX-License-Identifier: Apache-2.0
"""Printing the output of many servers in one place: every line begins with its server's name."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from orchestrator.jobs.launch import Stream, Write

_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # of the terminal; red is reserved for errors


def prefixed(servers: Sequence[str]) -> Write:
    """Write each line after its server's name to the launcher's stream of the same kind; coloured on a terminal."""
    outputs = {"stdout": sys.stdout, "stderr": sys.stderr}
    prefixes = {
        stream: [_prefix(name, index, output.isatty()) for index, name in enumerate(servers)]
        for stream, output in outputs.items()
    }

    def write(program: int, stream: Stream, line: bytes) -> None:
        output = outputs[stream].buffer
        output.write(prefixes[stream][program] + line + b"\n")
        output.flush()

    return write


def _prefix(server: str, index: int, terminal: bool) -> bytes:
    if not terminal:
        return f"[{server}] ".encode()
    return f"\x1b[{_COLOURS[index % len(_COLOURS)]}m[{server}]\x1b[0m ".encode()
