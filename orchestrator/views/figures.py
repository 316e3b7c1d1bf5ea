# SPDX-License-Identifier: Apache-2.0
"""Pictures by matplotlib: the look that they share, and the same file for the same numbers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from hipsnet.errors import InputError

logging.getLogger("matplotlib").setLevel(
    logging.ERROR
)  # matplotlib warns on import if its cache folder cannot be written

INK, PAPER = "#0f172a", "#ffffff"
_SETTINGS = {
    "font.family": ["DejaVu Sans"],
    "svg.fonttype": "none",
    "svg.hashsalt": "hipsnet",
    "pdf.fonttype": 42,
}
_METADATA: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata without a date, so that the same numbers give the same bytes."""


@contextmanager
def naming(output: Path) -> Iterator[None]:
    """Let an OSError of the block name `output`: InputError if it cannot be opened, else (a full disk) OSError."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, str(output)) from None
        raise InputError(f"{output}: cannot be written: {error.strerror}") from None


@contextmanager
def figure(output: Path, size: tuple[float, float], dpi: float = 150, **saved: Any) -> Iterator[Any]:
    """A matplotlib figure of these inches to draw on, written to `output` at the end of the block.

    The ending gives the format: .svg, .pdf or .png. Raises as `naming`.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):
        drawn = Figure(figsize=size, facecolor=PAPER)
        yield drawn
        ending = output.suffix.lower()
        content = BytesIO()  # matplotlib's PDF writer does not survive a full disk
        drawn.savefig(
            content, format=ending[1:], dpi=dpi, facecolor=PAPER, metadata=_METADATA.get(ending), **saved
        )
        with naming(output):
            output.write_bytes(content.getvalue())
