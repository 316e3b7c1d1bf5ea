# SPDX-License-Identifier: Apache-2.0
"""`fabric`: the parameters of one of the registered kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from hipsnet.topology.kinds import KINDS, FabricKind

if TYPE_CHECKING:
    AnyKind = FabricKind
else:  # the union is made from the registry
    AnyKind = Annotated[Union[KINDS], Field(discriminator="kind")]  # noqa: UP007
