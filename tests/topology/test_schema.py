# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema for editors matches the files that `parse` accepts."""

from __future__ import annotations

import json

from hipsnet.topology import KINDS, explain


def test_the_schema_is_plain_json_and_names_its_draft() -> None:
    schema = json.loads(json.dumps(explain.json_schema()))
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["title"] == "hipsnet topology file"
    assert schema["required"] == ["version", "name", "fabric"]
    assert schema["additionalProperties"] is False


def test_every_section_forbids_unknown_keys() -> None:
    for name, section in explain.json_schema()["$defs"].items():
        assert section["additionalProperties"] is False, name


def test_the_key_kind_selects_the_schema() -> None:
    fabric = explain.json_schema()["properties"]["fabric"]
    assert fabric["discriminator"]["propertyName"] == "kind"
    assert set(fabric["discriminator"]["mapping"]) == {kind.kind_name() for kind in KINDS}


def test_numbers_carry_their_limits() -> None:
    link = explain.json_schema()["$defs"]["Cable"]["properties"]
    assert (link["mtu"]["minimum"], link["mtu"]["maximum"]) == (1280, 9000)
    assert link["rate"]["default"] == "500Mbit/s"
