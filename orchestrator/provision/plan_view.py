# SPDX-License-Identifier: Apache-2.0
"""Render a plan as lines of text, as a table of sums, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from rich.table import Table

from hipsnet.node.change import Change

_SIGNS = {"add": "+", "change": "~", "remove": "-"}
_PLURALS = {
    "address": "addresses",
    "delay line": "delay lines",
    "link": "link properties",
    "nic": "NIC settings",
    "policy": "routes by source",
    "program": "XDP programs",
    "soft switch": "soft switches",
    "state": "links up",
    "table": "forwarding tables",
}


def lines(steps: Iterable[Change]) -> Iterator[str]:
    """The plan, node by node: one line for a node that is added or removed, else one line per change."""
    by_node: dict[str, list[Change]] = {}
    for step in steps:
        by_node.setdefault(step.node, []).append(step)
    for node, found in by_node.items():
        whole = next((step for step in found if step.aspect == "namespace"), None)
        if whole is None:
            yield from (f"{_SIGNS[step.action]} {node}: {step}" for step in found)
            continue
        counts = Counter(step.aspect for step in found if step is not whole)
        parts = ", ".join(f"{number} {_name(aspect, number)}" for aspect, number in counts.items())
        yield f"{_SIGNS[whole.action]} {node}: namespace {whole.subject}{', ' if parts else ''}{parts}"


def _name(aspect: str, number: int) -> str:
    return aspect if number == 1 else _PLURALS.get(aspect, f"{aspect}s")


def table(steps: Iterable[Change], title: str) -> Table:
    """A table with the numbers of additions, changes and removals of each kind."""
    counts: dict[str, Counter[str]] = {}
    for step in steps:
        counts.setdefault(step.aspect, Counter())[step.action] += 1
    view = Table(title=title, title_justify="left")
    view.add_column("")
    for heading in ("added", "changed", "removed"):
        view.add_column(heading, justify="right")
    for aspect, found in counts.items():
        view.add_row(_name(aspect, 2), *(str(found[action] or "") for action in _SIGNS))
    return view


def as_json(steps: Iterable[Change]) -> list[dict[str, Any]]:
    """The changes as plain data."""
    return [
        {
            "node": step.node,
            "aspect": step.aspect,
            "action": step.action,
            "subject": step.subject,
            "before": step.before,
            "after": step.after,
        }
        for step in steps
    ]
