# SPDX-License-Identifier: Apache-2.0
"""One difference between what a node must look like and what it looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["add", "change", "remove"]


@dataclass(frozen=True)
class Change:
    """One step towards the desired state.

    `aspect` names the module that finds and applies it; `subject` is what it is about ("p0", "10.0.0.1/30 on
    p1"); `before` and `after` are for the reader, empty where there is nothing; `value` is for the aspect.
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
