# SPDX-License-Identifier: Apache-2.0
"""Reads YAML text into plain data with line numbers.

Stricter than YAML 1.1: only true and false are booleans, only decimal digits are integers (a MAC address is
not a number in base 60), there are no dates, tags and aliases, and a repeated key is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

Key = str | int
Keys = tuple[Key, ...]


@dataclass(frozen=True)
class Problem:
    """An error in a text: line (from 1), key, the value found, the values allowed."""

    line: int
    key: str
    found: str
    allowed: str
    nearest: str | None = None


class NotReadable(Exception):
    """The text is not valid: the first problems, and the number of the others."""

    def __init__(self, *problems: Problem, more: int = 0) -> None:
        super().__init__(problems)
        self.problems = problems
        self.more = more


@dataclass(frozen=True)
class Node:
    """A value of the text and its line (from 1).

    `content` is a mapping from key to the key's line and its value, a list, or a scalar; `text` is how a scalar
    is written, in double quotes if it is quoted.
    """

    line: int
    content: dict[str, tuple[int, Node]] | list[Node] | str | int | float | bool | None
    text: str = ""


ONE_MAPPING = "one YAML mapping with the keys version, name, fabric, ..."
MOST_DIGITS = 18
"""More than any key allows, and few enough for Python to convert."""
DEEPEST = 32
"""No key of the file is nested deeper than a quarter of this."""

_PLAIN: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"true|false"), lambda text: text == "true"),
    (re.compile(r"null|~|"), lambda text: None),
    (re.compile(r"-?(?:0|[1-9][0-9]*)"), int),
    (re.compile(r"-?[0-9]+\.[0-9]+(?:[eE][-+][0-9]+)?"), float),
)
_Events = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml takes a fiftieth of the time


def read(text: str) -> Node:
    """Return the text's one mapping; raises NotReadable."""
    try:
        composer = _Composer(yaml.parse(text, Loader=_Events))
        documents = list(composer.documents())
    except yaml.YAMLError as error:
        raise NotReadable(_syntax_problem(text, error)) from None
    if len(documents) != 1 or documents[0].content is None:
        found = f"{len(documents)} YAML documents" if len(documents) > 1 else "an empty file"
        raise NotReadable(Problem(documents[1].line if len(documents) > 1 else 1, "", found, ONE_MAPPING))
    if not isinstance(documents[0].content, dict):
        raise NotReadable(Problem(documents[0].line, "", describe(documents[0]), ONE_MAPPING))
    if composer.problems:
        raise NotReadable(*composer.problems)
    return documents[0]


class _Composer:
    """Makes nodes from YAML events, and collects constructs that YAML permits and a topology file does not."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self.problems: list[Problem] = []

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                yield self._node(event, ())

    def _node(self, event: yaml.Event, keys: Keys) -> Node:
        line = event.start_mark.line + 1 if event.start_mark else 1
        if len(keys) > DEEPEST:
            raise NotReadable(Problem(line, "", f"values nested more than {DEEPEST} deep", ONE_MAPPING))
        if isinstance(event, yaml.AliasEvent):
            raise NotReadable(
                Problem(line, dotted(keys), f"an alias, *{event.anchor}", "the value itself, as YAML")
            )
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            self.problems.append(Problem(line, dotted(keys), f"the tag {event.tag}", "a plain value"))
        if isinstance(event, yaml.MappingStartEvent):
            return Node(line, self._mapping(keys))
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(line, [self._node(item, (*keys, index)) for index, item in enumerate(self._items())])
        assert isinstance(event, yaml.ScalarEvent)
        return self._scalar(event, line, keys)

    def _items(self) -> Iterator[yaml.Event]:
        """The events that begin a node, up to the end of the mapping or list that is open."""
        for event in self._events:
            if isinstance(event, yaml.CollectionEndEvent):
                return
            yield event

    def _mapping(self, keys: Keys) -> dict[str, tuple[int, Node]]:
        content: dict[str, tuple[int, Node]] = {}
        for event in self._items():
            key = self._node(event, keys)
            name = key.content
            value = self._node(next(self._events), (*keys, name if isinstance(name, str) else describe(key)))
            if not isinstance(name, str):
                found = f"{describe(key)} as a key"
                self.problems.append(Problem(key.line, dotted(keys), found, "a word as a key"))
            elif name in content:
                found = f"the key {name} twice, first in line {content[name][0]}"
                self.problems.append(Problem(key.line, dotted((*keys, name)), found, "every key once"))
            else:
                content[name] = key.line, value
        return content

    def _scalar(self, event: yaml.ScalarEvent, line: int, keys: Keys) -> Node:
        if event.style in ("'", '"'):
            return Node(line, event.value, f'"{event.value}"')
        convert = next((convert for form, convert in _PLAIN if form.fullmatch(event.value)), str)
        if not event.implicit[0]:
            convert = str
        if convert is int and len(event.value) > MOST_DIGITS:
            found = f"a number of {len(event.value)} digits"
            self.problems.append(Problem(line, dotted(keys), found, f"at most {MOST_DIGITS} digits"))
            return Node(line, 0, event.value)
        return Node(line, convert(event.value), event.value)


def _syntax_problem(text: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", None) or 0) + 1
    lines = text.splitlines()
    shown = lines[line - 1].strip() if line <= len(lines) else "the end of the file"
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
    if "\t" in (lines[line - 1] if line <= len(lines) else ""):
        return Problem(line, "", f"a tab in {shown!r}", "YAML, which is indented by spaces")
    return Problem(line, "", f"{shown!r} ({what})", "YAML")


def data(node: Node) -> Any:
    """Return the plain data of a node: dict, list, str, int, float, bool or None."""
    if isinstance(node.content, dict):
        return {key: data(value) for key, (_, value) in node.content.items()}
    if isinstance(node.content, list):
        return [data(item) for item in node.content]
    return node.content


def locate(root: Node, keys: Keys) -> tuple[int, Node | None]:
    """Return the line and the node of the value at these keys; or the line of the section that lacks it."""
    node, line = root, root.line
    for key in keys:
        content = node.content
        if isinstance(content, dict) and str(key) in content:
            line, node = content[str(key)]
        elif isinstance(content, list) and isinstance(key, int) and key < len(content):
            line, node = content[key].line, content[key]
        else:
            return line, None
    return line, node


def describe(node: Node | None) -> str:
    """Describe a node in words."""
    if node is None or (node.content is None and not node.text.startswith('"')):
        return "nothing"
    if isinstance(node.content, dict):
        return f"a mapping of {', '.join(node.content) or 'nothing'}"
    if isinstance(node.content, list):
        return f"a list of {len(node.content)}"
    return node.text


def dotted(keys: Keys) -> str:
    """Write keys as a path: nodes.s01.ports[0].mac."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
