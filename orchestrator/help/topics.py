# SPDX-License-Identifier: Apache-2.0
"""Finding a topic of the help, and its text."""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator.help import tables

_FOLDER = Path(__file__).parent
_TABLES = {"settings": tables.settings, "keys": tables.keys, "exit-codes": tables.exit_codes}


def names() -> tuple[str, ...]:
    """All topics, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.md")))


def text(topic: str) -> str:
    """The topic in Markdown; `topic` is one of `names()`."""
    source = (_FOLDER / f"{topic}.md").read_text(encoding="utf-8")
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda found: _TABLES[found[1]](), source)


def title(topic: str) -> str:
    """The topic's heading."""
    return text(topic).splitlines()[0].removeprefix("# ")
