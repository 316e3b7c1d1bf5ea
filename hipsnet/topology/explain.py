# SPDX-License-Identifier: Apache-2.0
"""Describes what the schema allows at a key. The JSON Schema is the one source for editors and error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import cache
from typing import Any

from hipsnet.topology.document import Keys, dotted
from hipsnet.topology.schema import Topology

Node = dict[str, Any]

SHORT_PATTERN = 24  # a longer pattern explains nothing that its examples do not


@cache
def json_schema() -> Node:
    """Return the topology file's JSON Schema (draft 2020-12)."""
    schema = Topology.model_json_schema() | {"title": "hipsnet topology file"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def allowed(keys: Keys, data: Any) -> str:
    """Say what is allowed at these keys of a file whose content is `data`."""
    node = _at(keys, data)
    return "nothing" if node is None else words(node)


def known_keys(keys: Keys, data: Any) -> list[str]:
    """Return the keys of the mapping at `keys`."""
    node = _at(keys, data)
    return list(node.get("properties", ())) if node else []


def nearest_key(key: str, keys: Keys, data: Any) -> str | None:
    """Return the known key that is most like an unknown one, or the same key where it belongs."""
    here = known_keys(keys, data)
    places = _all_keys(json_schema(), ())
    elsewhere = [dotted(place) for place in places if place[-1] == key and place[:-1] != keys]
    if elsewhere and not difflib.get_close_matches(key, here, 1, 0.75):
        return elsewhere[0]
    return max(here, key=lambda known: difflib.SequenceMatcher(a=key, b=known).ratio(), default=None)


def _at(keys: Keys, data: Any) -> Node | None:
    node, value = _narrow(json_schema(), data), data
    for key in keys:
        if isinstance(key, int):
            below = node.get("items")
        else:
            below = node.get("properties", {}).get(key) or node.get("additionalProperties")
        if not isinstance(below, dict):
            return None
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            value = None
        node = _narrow(below, value)
    return node


def narrowed(node: Node) -> Node:
    """The schema of a value that is nothing in particular: references are followed, null is left out."""
    return _narrow(node, None)


def _narrow(node: Node, value: Any) -> Node:
    """Follow a reference, and of several alternatives the one that the value is meant to be."""
    if "$ref" in node:
        return _narrow(_definition(node["$ref"]), value)
    if "discriminator" in node:
        mapping = node["discriminator"]["mapping"]
        kind = value.get(node["discriminator"]["propertyName"]) if isinstance(value, dict) else None
        known = isinstance(kind, str) and kind in mapping
        return _definition(mapping[kind]) if known else {"properties": {"kind": {"enum": list(mapping)}}}
    options = [option for option in _alternatives(node) if option.get("type") != "null"]
    if len(options) == 1:
        about = {name: text for name, text in node.items() if name in ("examples", "description")}
        return {**about, **_narrow(options[0], value)}
    if options:
        fits = [option for option in options if (option.get("type") == "object") == isinstance(value, dict)]
        return (
            _narrow(fits[0], value) if fits and isinstance(value, dict) else {**options[0], "oneOf": options}
        )
    return node


def _alternatives(node: Node) -> list[Node]:
    found: list[Node] = node.get("anyOf") or node.get("oneOf") or []
    return found


def _definition(reference: str) -> Node:
    node = json_schema()["$defs"][reference.rsplit("/", 1)[1]]
    assert isinstance(node, dict)
    return node


def _all_keys(node: Node, keys: Keys) -> Iterator[Keys]:
    for option in [_definition(node["$ref"])] if "$ref" in node else _alternatives(node):
        yield from _all_keys(option, keys)
    for key, below in node.get("properties", {}).items():
        yield (*keys, key)
        yield from _all_keys(below, (*keys, key))


def words(node: Node) -> str:
    """Describe the values that a part of the schema allows."""
    if len(node.get("oneOf", ())) > 1:
        return " or ".join(words(_narrow(option, None)) for option in node["oneOf"])
    if "const" in node:
        return str(node["const"])
    if "enum" in node:
        return _either(node["enum"])
    kind = node.get("type", "object")
    if kind == "boolean":
        return "true or false"
    if kind in ("integer", "number"):
        return _number_words(node, "a whole number" if kind == "integer" else "a number")
    if kind == "array":
        return f"a list of {_count(node)}, each {words(_narrow(node.get('items', {}), None))}"
    if kind == "object":
        if isinstance(below := node.get("additionalProperties"), dict):
            return f"a mapping of names, each to {words(_narrow(below, None))}"
        return f"a mapping with the keys {', '.join(node.get('properties', ()))}"
    pattern = node.get("pattern", "")
    text = f"text like {_either(node['examples'])}" if "examples" in node else "text"
    return f"{text} ({pattern})" if pattern and len(pattern) <= SHORT_PATTERN else text


def _number_words(node: Node, noun: str) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if "exclusiveMinimum" in node:
        words = f"{noun} above {node['exclusiveMinimum']:g}, at most {high:g}"
    else:
        words = f"{noun} from {low} to {high}"
    return f"{words}, a multiple of {node['multipleOf']}" if "multipleOf" in node else words


def _count(node: Node) -> str:
    low, high = node.get("minItems", 0), node.get("maxItems")
    if low == high:
        return str(low)
    return f"{low} to {high}" if high else f"{low} or more"


def _either(values: list[Any]) -> str:
    words = [str(value) for value in values]
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
