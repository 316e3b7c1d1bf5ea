# SPDX-License-Identifier: Apache-2.0
"""The vectors and iterations that a job measures, and their text form, which is a worker's argument."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from hipsnet.collective.models import ITEM_BYTES
from hipsnet.errors import InputError


@dataclass(frozen=True)
class Case:
    """One row of the results: each iteration synchronizes vectors of `counts` elements, one after the other.

    `model` is the network whose gradients they are; None for a plain vector.
    """

    counts: tuple[int, ...]
    model: str | None = None


@dataclass(frozen=True)
class Measurement:
    """All cases of a job: `warmup` iterations precede those that count; `check` verifies the results.

    A case's count is that of the longest array of a rank.
    """

    cases: tuple[Case, ...]
    dtype: str
    iterations: int
    warmup: int
    check: bool
    collective: str = "all_reduce"
    root: int = 0

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]

    def size_bytes(self, case: int) -> int:
        """Bytes that a rank synchronizes in one iteration of the case of this index."""
        return sum(self.cases[case].counts) * self.item_bytes

    def to_text(self) -> str:
        """One line that `from_text` reads back."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Measurement:
        """Parse the output of `to_text`."""
        fields = json.loads(text)
        cases = tuple(Case(tuple(case["counts"]), case["model"]) for case in fields.pop("cases"))
        return cls(cases, **fields)


def count(size_bytes: int, dtype: str, flag: str = "--size") -> int:
    """The number of elements in `size_bytes`. Raises InputError for an unknown type or a size below one element."""
    if dtype not in ITEM_BYTES:
        raise InputError(f"--dtype: found {dtype!r}; allowed: {', '.join(ITEM_BYTES)}")
    if size_bytes < ITEM_BYTES[dtype]:
        raise InputError(f"{flag}: found {size_bytes}B; needs at least one {dtype} ({ITEM_BYTES[dtype]}B)")
    return size_bytes // ITEM_BYTES[dtype]
