# SPDX-License-Identifier: Apache-2.0
"""Times that `hipsnet run --json` has written, to compare predictions with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsnet.errors import InputError
from hipsnet.predict.prediction import Subject

_Key = tuple[str, int, str | None]


@dataclass(frozen=True)
class Measured:
    """The median times of one job, in seconds, by (algorithm, bytes, model)."""

    kind: str
    dims: tuple[int, ...]
    ports: int
    rate_bps: int | None
    times_s: dict[_Key, float]

    def time_s(self, of: Subject, algorithm: str, size_bytes: int, model: str | None) -> float | None:
        """The time on this fabric; None if another one was measured, or another size."""
        same = (self.kind, self.dims, self.ports, self.rate_bps)
        if same != (of.shape.kind, of.shape.radices, of.shape.ports_per_server, of.rate_bps):
            return None
        return self.times_s.get((algorithm, size_bytes, model))


def read(file: Path) -> Measured:
    """The results in a file. Raises InputError if it is not what `hipsnet run --json` writes."""
    try:
        return _measured(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"--measured: {file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"--measured: {file} is not what `hipsnet run --json` writes ({type(error).__name__}: {error})"
        ) from None


def _measured(document: dict[str, Any]) -> Measured:
    fabric = document["fabric"]
    return Measured(
        kind=fabric["kind"],
        dims=tuple(fabric["dims"]),
        ports=fabric["ports_per_server"],
        rate_bps=fabric["rate_bps"],
        times_s={
            (result.get("algorithm", document["algorithm"]), result["bytes"], result["model"]): float(
                result["time_s"]["median"]
            )
            for result in document["results"]
        },
    )
