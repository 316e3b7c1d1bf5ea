# SPDX-License-Identifier: Apache-2.0
"""Pictures by matplotlib: the look that they share, and the same file for the same numbers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hipsnet.errors import InputError

logging.getLogger("matplotlib").setLevel(
    logging.ERROR
)  # it warns, imported, of a home that cannot hold its cache

INK, PAPER = "#0f172a", "#ffffff"
_SETTINGS = {"font.family": ["DejaVu Sans"], "svg.fonttype": "none", "svg.hashsalt": "hipsnet"}


@contextmanager
def figure(output: Path, size: tuple[float, float], dpi: float = 150, **saved: Any) -> Iterator[Any]:
    """A matplotlib figure of these inches to draw on, written to `output` at the end of the block.

    Raises InputError if it cannot be written.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        drawn = Figure(figsize=size, facecolor=PAPER)
        yield drawn
        metadata = {"Date": None} if output.suffix.lower() == ".svg" else None
        try:
            drawn.savefig(output, dpi=dpi, facecolor=PAPER, metadata=metadata, **saved)
        except OSError as error:
            raise InputError(f"{output}: wanted a file to write, found: {error.strerror}") from None
