# SPDX-License-Identifier: Apache-2.0
"""What every section of the file is, and the quantities in it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hipsnet.topology import quantities


class Section(BaseModel):
    """A mapping of the file: no unknown keys, no silent conversions, frozen once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _checked(parse: Any) -> AfterValidator:
    """Keep the text as it was written, once `parse` has understood it."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


Rate = Annotated[
    str,
    Field(pattern=quantities.RATE_PATTERN, examples=["500Mbit/s", "10Gbit/s", "unlimited"]),
    _checked(quantities.parse_rate),
]
Delay = Annotated[
    str,
    Field(pattern=quantities.DELAY_PATTERN, examples=["0us", "50us", "1.5ms"]),
    _checked(quantities.parse_delay),
]
Size = Annotated[
    str,
    Field(pattern=quantities.SIZE_PATTERN, examples=["9216B", "64KiB", "1.5MiB"]),
    _checked(quantities.parse_size),
]
Priority = Annotated[int, Field(ge=0, le=7)]
