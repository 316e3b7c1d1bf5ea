# SPDX-License-Identifier: Apache-2.0
"""Closed forms: the time of an algorithm from its profile, without a simulation.

The terms are those of GenModel (Xiong et al., "Revisiting the Time Cost Model of AllReduce", 2024):
T = A alpha + B beta + C gamma + D delta + max(w - w_t, 0) B epsilon.

Two forms exist. *Barrier*: every step begins when the previous one has ended everywhere, so that the times of the
steps add up. It is exact for transfers that are not cut into segments. *Pipelined*: segments of different steps
are under way at the same time. Then the time is that of the busiest port, or that of the longest chain of
segments that wait for each other, if that takes longer: a lower bound, which the fluid simulator refines.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from hipsnet.collective.plan import CHUNKS_PER_TRANSFER, SMALLEST_CHUNK_BYTES
from hipsnet.errors import InputError
from hipsnet.predict.profile import Profile

ACCESSES_PER_ADD = 3
"""The engine adds one contribution at a time: it reads both numbers, and writes the sum."""


@dataclass(frozen=True)
class Constants:
    """The constants of a cluster. Zero removes a term.

    `latency_s`: from the departure of a message's last bit to its use (alpha). `add_s`: to add one byte's worth
    of elements (gamma). `access_s`: to read or write one byte of memory (delta). `incast_s`: per byte and per
    sender above `incast_senders` that send into one port at the same time (epsilon, w_t). Raises InputError for
    a negative value.
    """

    latency_s: float = 0.0
    add_s: float = 0.0
    access_s: float = 0.0
    incast_s: float = 0.0
    incast_senders: int = 9

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise InputError(
                    f"{field.name}: found {getattr(self, field.name)}; allowed: 0 or a positive number"
                )


@dataclass(frozen=True)
class Terms:
    """The time of one all-reduce in seconds, term by term."""

    latency_s: float
    bandwidth_s: float
    add_s: float
    access_s: float
    incast_s: float

    @property
    def total_s(self) -> float:
        """The sum of all terms."""
        return self.latency_s + self.bandwidth_s + self.add_s + self.access_s + self.incast_s


def barrier(profile: Profile, item_bytes: int, rate_bps: float, constants: Constants) -> Terms:
    """Return the time if every step waits for the previous one everywhere; rates in bit/s."""
    load = float(profile.load.sum()) * item_bytes
    return _terms(profile, item_bytes, load, profile.steps * constants.latency_s, rate_bps, constants)


def pipelined(
    profile: Profile, item_bytes: int, rate_bps: float, constants: Constants, chunk_bytes: int
) -> Terms:
    """Return the time if segments of at most `chunk_bytes` follow each other without barriers.

    It is never above `barrier`. The latency term is what latency adds to the time of the busiest port.
    """
    load = profile.busiest * item_bytes
    if not profile.steps:
        return Terms(0.0, 0.0, 0.0, 0.0, 0.0)
    longest = profile.longest * item_bytes
    chunk = np.minimum(longest, _chunk(int(longest.max()), chunk_bytes))
    # A segment shares its port with those of all senders of its step.
    passing = np.minimum(chunk * np.maximum(profile.senders, 1), profile.load * item_bytes)
    chain_s = float(passing.sum()) * 8 / rate_bps + profile.steps * constants.latency_s
    busy_s = load * 8 / rate_bps
    latency_s = max(constants.latency_s, chain_s - busy_s)
    bound = barrier(profile, item_bytes, rate_bps, constants)
    latency_s = min(latency_s, bound.latency_s + bound.bandwidth_s - busy_s)
    return _terms(profile, item_bytes, load, latency_s, rate_bps, constants)


def _chunk(longest_bytes: int, chunk_bytes: int) -> int:
    return min(chunk_bytes, max(SMALLEST_CHUNK_BYTES, -(-longest_bytes // CHUNKS_PER_TRANSFER)))


def _terms(
    profile: Profile,
    item_bytes: int,
    load_bytes: float,
    latency_s: float,
    rate_bps: float,
    constants: Constants,
) -> Terms:
    added = float(profile.added.sum()) * item_bytes
    above = np.maximum(profile.senders - constants.incast_senders, 0)
    return Terms(
        latency_s=latency_s,
        bandwidth_s=load_bytes * 8 / rate_bps,
        add_s=added * constants.add_s,
        access_s=ACCESSES_PER_ADD * added * constants.access_s,
        incast_s=float((above * profile.load).sum()) * item_bytes * constants.incast_s,
    )
