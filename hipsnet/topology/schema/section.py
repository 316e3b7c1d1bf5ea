# SPDX-License-Identifier: Apache-2.0
"""The base class of all sections of the file, and the types of quantities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hipsnet import units


class Section(BaseModel):
    """A mapping of the file: no unknown keys, no silent conversions, frozen once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _checked(parse: Callable[[str], Any]) -> AfterValidator:
    """Keep the text as it was written, once `parse` has understood it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


def _shown(pattern: str, *examples: str) -> Any:
    """The pattern is for editors; errors come from the parser, which says what is allowed."""
    return Field(json_schema_extra={"pattern": pattern, "examples": list(examples)})


Rate = Annotated[
    str, _shown(units.RATE_PATTERN, "500Mbit/s", "10Gbit/s", "unlimited"), _checked(units.parse_rate)
]
Delay = Annotated[str, _shown(units.TIME_PATTERN, "0us", "50us", "1.5ms"), _checked(units.parse_delay)]
Size = Annotated[str, _shown(units.SIZE_PATTERN, "9216B", "64KiB", "1.5MiB"), _checked(units.parse_size)]
Priority = Annotated[int, Field(ge=0, le=7)]
