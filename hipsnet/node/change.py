# SPDX-License-Identifier: Apache-2.0
"""One difference between the desired and the actual state of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["add", "change", "remove"]


@dataclass(frozen=True)
class Change:
    """One step towards the desired state.

    `aspect` names the aspect that finds and applies it; `subject` is the object ("p0", "10.0.0.1/30 on p1");
    `before` and `after` are text for the reader, empty if there is no value; `value` is for the aspect.
    """

    node: str
    aspect: str
    action: Action
    subject: str
    before: str = ""
    after: str = ""
    value: Any = None

    def __str__(self) -> str:
        if self.action == "change":
            return f"{self.aspect} {self.subject}: {self.before} -> {self.after}"
        detail = self.after or self.before
        return f"{self.aspect} {self.subject}" + (f": {detail}" if detail else "")
