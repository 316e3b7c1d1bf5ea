# SPDX-License-Identifier: Apache-2.0
"""`cost`: the constants of the cost model, measured on the fabric."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hipsnet.topology.schema.section import Section

Constant = Annotated[float, Field(ge=0, le=1e9)]


class Cost(Section):
    """The constants of the cost model that `--algorithm auto` uses; `hipsnet calibrate` writes them."""

    call_us: Constant = Field(description="time of a call, in us")
    step_us: Constant = Field(description="time of a step, in us")
    message_us: Constant = Field(description="time of a message of the busiest rank, in us")
    byte_ns: Constant = Field(description="time of a byte of the busiest port, in ns")
