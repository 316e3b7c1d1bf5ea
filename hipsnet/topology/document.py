# SPDX-License-Identifier: Apache-2.0
"""A YAML text as plain data that remembers its lines; nothing is guessed, nothing is lost.

Narrower than YAML 1.1: only true and false are booleans, only decimal digits are integers (a MAC address is
not a number in base 60), there are no dates and no aliases, and a key that comes twice is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

Key = str | int
Keys = tuple[Key, ...]


@dataclass(frozen=True)
class Problem:
    """What is wrong in a text: at which line (from 1) and key, what was found, what is allowed."""

    line: int
    key: str
    found: str
    allowed: str
    nearest: str | None = None


class NotReadable(Exception):
    """The text does not describe what it should; carries the problems."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems)
        self.problems = problems


class _Loader(yaml.SafeLoader):
    """SafeLoader with the few scalars that a topology file knows."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - its base has it so

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "an alias, where the value itself is wanted", mark)
        return super().compose_node(parent, index)


ONE_MAPPING = "one YAML mapping with the keys version, name, fabric, ..."
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_NUMBER_STARTS = list("-+0123456789")
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]*)$"), _NUMBER_STARTS)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^-?[0-9]+\.[0-9]+(?:[eE][-+][0-9]+)?$"), _NUMBER_STARTS
)


def read(text: str) -> tuple[dict[str, Any], yaml.Node]:
    """Return the text's one mapping and its node tree; raises NotReadable."""
    try:
        documents = list(yaml.compose_all(text, Loader=_Loader))
        if len(documents) != 1 or _is_nothing(documents[0]):
            found = f"{len(documents)} YAML documents" if len(documents) > 1 else "an empty file"
            raise NotReadable(
                Problem(line_of(documents[1]) if len(documents) > 1 else 1, "", found, ONE_MAPPING)
            )
        root = documents[0]
        if not isinstance(root, yaml.MappingNode):
            raise NotReadable(Problem(line_of(root), "", describe(root), ONE_MAPPING))
        if problems := list(_bad_nodes(root, ())):
            raise NotReadable(*problems)
        return _Loader("").construct_document(root), root
    except yaml.YAMLError as error:
        raise NotReadable(_syntax_problem(text, error)) from None
    except RecursionError:
        raise NotReadable(Problem(1, "", "hundreds of nested values", ONE_MAPPING)) from None


def _is_nothing(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")


def _syntax_problem(text: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1
    lines = text.splitlines()
    shown = lines[line - 1].strip() if line <= len(lines) else "the end of the file"
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
    if "\t" in (lines[line - 1] if line <= len(lines) else ""):
        return Problem(line, "", f"a tab in {shown!r}", "YAML, which is indented by spaces")
    return Problem(line, "", f"{shown!r} ({what})", "YAML")


def _bad_nodes(node: yaml.Node, keys: Keys) -> Iterator[Problem]:
    """Yield what only YAML permits: keys that come twice, keys that are no words, tags."""
    if node.tag not in _TAGS or (isinstance(node, yaml.ScalarNode) and not _reads_as_tagged(node)):
        yield Problem(line_of(node), dotted(keys), f"the tag {node.tag}", "a plain value")
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _bad_nodes(item, (*keys, index))
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not key.tag.endswith(":str"):
                yield Problem(line_of(key), dotted(keys), f"{describe(key)} as a key", "a word as a key")
                continue
            here = (*keys, key.value)
            if key.value in lines:
                found = f"the key {key.value} twice, first in line {lines[key.value]}"
                yield Problem(line_of(key), dotted(here), found, "every key once")
            lines.setdefault(key.value, line_of(key))
            yield from _bad_nodes(value, here)


def _reads_as_tagged(node: yaml.ScalarNode) -> bool:
    """Tell an explicit tag such as !!int from what the text itself says."""
    resolved = _Loader("").resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
    return node.tag.endswith(":str") or node.tag == resolved


def line_of(node: yaml.Node) -> int:
    """Return the line, from 1, at which a node begins."""
    return int(node.start_mark.line) + 1


def child(node: yaml.Node | None, key: Key) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the nodes of a key and its value in a mapping or list, or None."""
    if isinstance(node, yaml.MappingNode):
        return next((pair for pair in node.value if pair[0].value == str(key)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        return node.value[key], node.value[key]
    return None


def locate(root: yaml.Node, keys: Keys) -> tuple[int, yaml.Node | None]:
    """Return the line and the node of the value at these keys; None, and the line of what should hold it."""
    node, line = root, line_of(root)
    for key in keys:
        pair = child(node, key)
        if pair is None:
            return line, None
        line, node = line_of(pair[0]), pair[1]
    return line, node


def describe(node: yaml.Node | None) -> str:
    """Say in words what a node is."""
    if node is None:
        return "nothing"
    if isinstance(node, yaml.MappingNode):
        return f"a mapping of {', '.join(str(key.value) for key, _ in node.value) or 'nothing'}"
    if isinstance(node, yaml.SequenceNode):
        return f"a list of {len(node.value)}"
    if node.tag.endswith(":null"):
        return "nothing"
    quoted = isinstance(node, yaml.ScalarNode) and node.style in ("'", '"')
    return f'"{node.value}"' if quoted else str(node.value)


def dotted(keys: Keys) -> str:
    """Write a place as people do: nodes.s01.ports[0].mac."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")
