# SPDX-License-Identifier: Apache-2.0
"""Reads the text of a topology file into a `Topology`; errors say where and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from hipsnet.errors import TopologyError
from hipsnet.topology import checks, document, explain
from hipsnet.topology.document import Keys, Node, NotReadable, Problem
from hipsnet.topology.schema import Topology

SHOWN = 10
LONGEST = 200
"""Characters of what was found that an error shows."""


def parse(text: str, filename: str) -> Topology:
    """Return the topology that a file's text describes.

    Raises TopologyError with everything that is wrong: file, line and key, what was found, what is allowed,
    and for an unknown key the nearest known one.
    """
    try:
        return read(text)
    except NotReadable as error:
        raise _error(filename, error) from None


def read(text: str) -> Topology:
    """Return the topology that a text describes; raises NotReadable with everything that is wrong."""
    root = document.read(text)
    data = document.data(root)
    try:
        topology = Topology.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise _first(error.errors(include_url=False, include_input=False), data, root) from None
    if problems := list(_findings(topology, root)):
        raise NotReadable(*problems)
    return topology


def _findings(topology: Topology, root: Node) -> Iterator[Problem]:
    for finding in checks.findings(topology):
        line, _ = document.locate(root, finding.keys)
        yield Problem(line, document.dotted(finding.keys), finding.found, finding.allowed, finding.nearest)


def _first(errors: list[Any], data: Any, root: Node) -> NotReadable:
    """The first of pydantic's errors in the file's order; a description of all 80,000 would take minutes."""
    placed = [(_keys(details, data), details) for details in errors]
    placed.sort(key=lambda place: document.locate(root, place[0])[0])
    problems = [_problem(keys, details, data, root) for keys, details in placed[:SHOWN]]
    return NotReadable(*problems, more=max(0, len(placed) - SHOWN))


def _keys(details: Any, data: Any) -> Keys:
    """The keys of the file that one of pydantic's errors is about."""
    keys: Keys = details["loc"]
    if len(keys) > 1 and keys[0] in ("fabric", "nodes"):
        keys = (
            keys[0],
            *keys[2:],
        )  # pydantic names the alternative that it chose, which is no key of the file
    if details["type"].startswith("union_tag") and isinstance(data[keys[0]], dict):
        keys = (*keys, "kind")
    return keys


def _problem(keys: Keys, details: Any, data: Any, root: Node) -> Problem:
    """Translate one of pydantic's errors."""
    line, node = document.locate(root, keys)
    key = document.dotted(keys)
    if details["type"] == "extra_forbidden":
        known = explain.known_keys(keys[:-1], data)
        nearest = explain.nearest_key(str(keys[-1])[:LONGEST], keys[:-1], data)
        return Problem(line, key, "an unknown key", ", ".join(known), nearest)
    allowed = explain.allowed(keys, data)
    if details["type"] == "value_error":
        allowed = f"{allowed}; {details['ctx']['error']}"
    return Problem(line, key, document.describe(node), allowed)


def _error(filename: str, refusal: NotReadable) -> TopologyError:
    ordered = sorted(refusal.problems, key=lambda problem: problem.line)
    texts = [_text(filename, problem) for problem in ordered[:SHOWN]]
    if more := refusal.more + len(ordered) - len(texts):
        texts.append(f"... and {more:,} more")
    return TopologyError("\n".join(texts))


def _text(filename: str, problem: Problem) -> str:
    lines = [f"{filename}:{problem.line}: {_short(problem.key) or 'the file'}"]
    lines += [f"  found: {_short(problem.found)}", f"  allowed: {problem.allowed}"]
    if problem.nearest:
        lines.append(f"  nearest known key: {problem.nearest}")
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
