# SPDX-License-Identifier: Apache-2.0
"""What a job measures: which vectors, how often, and the line of text that tells a worker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from hipsnet.collective.models import ITEM_BYTES
from hipsnet.errors import InputError


@dataclass(frozen=True)
class Case:
    """One line of the results: in an iteration vectors of `counts` elements are synchronized one by one.

    `model` is the network whose gradients they are, if they are.
    """

    counts: tuple[int, ...]
    model: str | None = None


@dataclass(frozen=True)
class Measurement:
    """All cases of a job: `warmup` iterations go before those that count; `check` verifies the sums."""

    cases: tuple[Case, ...]
    dtype: str
    iterations: int
    warmup: int
    check: bool

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
        """Read what `to_text` has written."""
        fields = json.loads(text)
        cases = tuple(Case(tuple(case["counts"]), case["model"]) for case in fields.pop("cases"))
        return cls(cases, **fields)


def count(size_bytes: int, dtype: str, flag: str = "--size") -> int:
    """The elements that fit into `size_bytes`; InputError: an unknown type, or not even one element."""
    if dtype not in ITEM_BYTES:
        raise InputError(f"--dtype: found {dtype!r}; allowed: {', '.join(ITEM_BYTES)}")
    if size_bytes < ITEM_BYTES[dtype]:
        raise InputError(f"{flag}: found {size_bytes}B; wanted at least one {dtype} ({ITEM_BYTES[dtype]}B)")
    return size_bytes // ITEM_BYTES[dtype]
