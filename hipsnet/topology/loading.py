# SPDX-License-Identifier: Apache-2.0
"""From the text of a topology file to a `Topology`, or to an error that says where and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import ValidationError

from hipsnet.errors import TopologyError
from hipsnet.topology import checks, document, explain
from hipsnet.topology.document import Keys, Problem
from hipsnet.topology.schema import Topology

SHOWN = 10
LONGEST = 200
"""Characters of what was found that an error shows."""


def parse(text: str, filename: str) -> Topology:
    """Return the topology that a file's text describes.

    TopologyError tells of everything that is wrong: file, line and key, what was found, what is allowed, and
    for an unknown key the nearest known one.
    """
    try:
        return read(text)
    except document.NotReadable as error:
        raise _error(filename, error.problems) from None


def read(text: str) -> Topology:
    """Return the topology that a text describes; raises NotReadable with everything that is wrong."""
    data, root = document.read(text)
    try:
        topology = Topology.model_validate_json(json.dumps(data))
    except ValidationError as error:
        problems = [_problem(details, data, root) for details in error.errors()]
        raise document.NotReadable(*problems) from None
    if problems := list(_findings(topology, root)):
        raise document.NotReadable(*problems)
    return topology


def _findings(topology: Topology, root: yaml.Node) -> Iterator[Problem]:
    for finding in checks.findings(topology):
        line, _ = document.locate(root, finding.keys)
        yield Problem(line, document.dotted(finding.keys), finding.found, finding.allowed, finding.nearest)


def _problem(details: Any, data: Any, root: yaml.Node) -> Problem:
    """Translate one of pydantic's errors."""
    keys: Keys = details["loc"]
    if len(keys) > 1 and keys[0] in ("fabric", "nodes"):
        keys = (
            keys[0],
            *keys[2:],
        )  # pydantic names the alternative that it chose, which is no key of the file
    if details["type"].startswith("union_tag"):
        keys = (*keys, "kind") if isinstance(data[keys[0]], dict) else keys
    line, node = document.locate(root, keys)
    key = document.dotted(keys)
    if details["type"] == "extra_forbidden":
        known = explain.known_keys(keys[:-1], data)
        nearest = explain.nearest_key(str(keys[-1]), keys[:-1], data)
        return Problem(line, key, "an unknown key", ", ".join(known), nearest)
    allowed = explain.allowed(keys, data)
    if details["type"] == "value_error":
        allowed = f"{allowed}; {details['ctx']['error']}"
    return Problem(line, key, document.describe(node), allowed)


def _error(filename: str, problems: tuple[Problem, ...]) -> TopologyError:
    ordered = sorted(problems, key=lambda problem: problem.line)
    texts = [_text(filename, problem) for problem in ordered[:SHOWN]]
    if len(ordered) > SHOWN:
        texts.append(f"... and {len(ordered) - SHOWN} more")
    return TopologyError("\n".join(texts))


def _text(filename: str, problem: Problem) -> str:
    lines = [f"{filename}:{problem.line}: {_short(problem.key) or 'the file'}"]
    lines += [f"  found: {_short(problem.found)}", f"  allowed: {problem.allowed}"]
    if problem.nearest:
        lines.append(f"  nearest known key: {problem.nearest}")
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
