# SPDX-License-Identifier: Apache-2.0
"""The circumstances of a simulated collective: latency, processors, faults, and other traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hipsnet.errors import InputError


@dataclass(frozen=True)
class Background:
    """A flow between two servers that never ends; `rate_bps` limits it, None does not."""

    source: str
    target: str
    rate_bps: float | None = None


@dataclass(frozen=True)
class Conditions:
    """What deviates from an ideal fabric; the default is an ideal one.

    `latency_s` is added to every message, `cable_delay_s` for each cable that it passes. `cpu_bps` limits what a
    server sends and receives in all; `slow` multiplies it for some servers (0.5: half as fast). `late_s`: by
    server, how late it enters the collective. `cables`: by `node.port`, the share of its rate that a cable still
    has in both directions (0: dead). `quantum_s`: see `flows.run`. Raises InputError for a value out of range.
    """

    latency_s: float = 0.0
    cable_delay_s: float = 0.0
    cpu_bps: float | None = None
    slow: Mapping[str, float] = field(default_factory=dict)
    late_s: Mapping[str, float] = field(default_factory=dict)
    cables: Mapping[str, float] = field(default_factory=dict)
    background: tuple[Background, ...] = ()
    quantum_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("latency_s", "cable_delay_s", "quantum_s"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name}: found {getattr(self, name)}; allowed: 0 or more seconds")
        if self.cpu_bps is not None and not self.cpu_bps > 0:
            raise InputError(f"cpu_bps: found {self.cpu_bps}; allowed: a positive rate")
        if self.slow and self.cpu_bps is None:
            raise InputError("slow: needs cpu_bps, the rate of the other servers")
        for name, low, high in (("slow", 1e-6, 1.0), ("cables", 0.0, 1.0), ("late_s", 0.0, 86_400.0)):
            for key, value in getattr(self, name).items():
                if not low <= value <= high:
                    raise InputError(f"{name}: found {value} for {key}; allowed: {low:g} to {high:g}")
