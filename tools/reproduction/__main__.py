# SPDX-License-Identifier: Apache-2.0
"""`tools/reproduce`: write docs/paper.md and docs/paper-theory.svg."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tools.reproduction import theory

DOCS = Path(__file__).parents[2] / "docs"


def table(rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown; the first row is the heading."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *others])


def text() -> str:
    """The content of docs/paper.md."""
    template = Path(__file__).with_name("template.md").read_text(encoding="utf-8").partition("-->\n")[2]
    return template.format(rows=table(theory.rows()), reductions=table(theory.reductions()))


def main() -> None:
    """Write both files."""
    theory.draw(DOCS / "paper-theory.svg")
    (DOCS / "paper.md").write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
