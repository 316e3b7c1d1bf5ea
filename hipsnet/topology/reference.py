# SPDX-License-Identifier: Apache-2.0
"""All keys of the topology file, as rows of a table: key, default, allowed values, meaning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hipsnet.topology import explain
from hipsnet.topology.explain import Node


@dataclass(frozen=True)
class Row:
    """One key, like `link.mtu`; `default` is JSON, "required", or empty for a key that is left out."""

    key: str
    default: str
    allowed: str
    meaning: str


def rows() -> Iterator[Row]:
    """Yield every key in the order of the schema; a key of one kind of fabric names the kind."""
    yield from _rows(explain.json_schema(), "")


def _rows(section: Node, prefix: str) -> Iterator[Row]:
    required = section.get("required", ())
    for name, node in section.get("properties", {}).items():
        yield from _key(f"{prefix}{name}", node, name in required)


def _key(key: str, node: Node, required: bool) -> Iterator[Row]:
    if "discriminator" in node:
        yield from _kinds(key, node["discriminator"]["mapping"])
        return
    value = explain.narrowed(node)
    below = value.get("additionalProperties")
    items = explain.narrowed(value["items"]) if isinstance(value.get("items"), dict) else {}
    if "properties" in value:
        if node.get("default", {}) is None:  # a section that may be left out
            yield _row(key, node, value, required)
        yield from _rows(value, f"{key}.")
        return
    yield _row(key, node, value, required)
    if "properties" in items:
        yield from _rows(items, f"{key}[].")
    for option in value.get("oneOf", ()):
        below = option.get("additionalProperties") or below
    if isinstance(below, dict):
        yield from _rows(explain.narrowed(below), f"{key}.<server>.")


def _kinds(key: str, mapping: dict[str, str]) -> Iterator[Row]:
    yield Row(f"{key}.kind", "required", ", ".join(mapping), "kind of network")
    for kind, reference in mapping.items():
        section = explain.narrowed({"$ref": reference})
        for row in _rows(section, f"{key}."):
            if row.key != f"{key}.kind":
                yield Row(f"{row.key} ({kind})", row.default, row.allowed, row.meaning)


def _row(key: str, node: Node, value: Node, required: bool) -> Row:
    meaning = node.get("description") or value.get("description") or ""
    return Row(key, "required" if required else _shown(node.get("default")), explain.words(value), meaning)


def _shown(default: Any) -> str:
    if default is None:
        return ""
    return default if isinstance(default, str) else json.dumps(default)
