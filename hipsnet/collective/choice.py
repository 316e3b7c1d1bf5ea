# SPDX-License-Identifier: Apache-2.0
"""`--algorithm auto`: for each size, the algorithm that the cost model predicts to be the fastest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.collectives import ALL_REDUCE, Collective
from hipsnet.collective.cost import Constants, Features, constants, features
from hipsnet.errors import InputError
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology

AUTO = "auto"
_REFERENCE = 64
_MOST_PEERS = 32
"""A rank keeps connections, with memory for each, to all peers of all candidates."""


class Chooser:
    """Chooses between algorithms. All ranks choose the same: from the size, the fabric and the constants only."""

    def __init__(self, fabric: Fabric, candidates: Sequence[Algorithm], model: Constants) -> None:
        self._fabric, self._candidates, self._model = fabric, tuple(candidates), model
        self._per_byte = lru_cache(64)(self._features)

    @property
    def candidates(self) -> tuple[Algorithm, ...]:
        """The algorithms among which it chooses."""
        return self._candidates

    @property
    def description(self) -> str:
        """What all ranks must have in common, as text."""
        if len(self._candidates) == 1:
            return "fixed"
        return f"{' or '.join(map(label, self._candidates))} by {self._model}"

    def choose(self, size_bytes: int, collective: Collective = ALL_REDUCE) -> Algorithm:
        """Return the algorithm for a vector; InputError if none of them supports the collective."""
        if len(self._candidates) == 1:
            return self._candidates[0]
        found = self._per_byte(replace(collective, counts=()))
        if not found:
            names = ", ".join(map(label, self._candidates))
            raise InputError(f"{collective.name}: none of {names} supports it; give another --algorithm")
        times = [
            self._model.time_s(Features(one.steps, one.messages, one.port_bytes * size_bytes))
            for _, one in found
        ]
        return found[times.index(min(times))][0]

    def names(self, sizes_bytes: Iterable[int], collective: Collective = ALL_REDUCE) -> str:
        """Return the names of the algorithms for vectors of these sizes, joined by a plus sign."""
        return "+".join(dict.fromkeys(label(self.choose(size, collective)) for size in sizes_bytes))

    def require(self, collective: Collective) -> None:
        """Raise InputError if the algorithm, or all of several, cannot run this collective."""
        self.choose(1, collective).hierarchy(self._fabric.shape, collective)

    def _features(self, collective: Collective) -> tuple[tuple[Algorithm, Features], ...]:
        """The candidates that support the collective, with features of which the bytes are per byte of the vector.

        From a vector that is long enough for every transfer to have elements.
        """
        ranks = len(self._fabric.servers)
        count = _REFERENCE * ranks * ranks
        found = []
        for algorithm in self._candidates:
            try:
                schedule = algorithm.build(self._fabric, count, collective)
            except InputError:
                continue
            one = features(schedule, self._fabric, 1)
            found.append((algorithm, Features(one.steps, one.messages, one.port_bytes / count)))
        return tuple(found)


def chooser(
    topology: Topology,
    fabric: Fabric,
    algorithm: str = AUTO,
    exchange: tuple[str, ...] = (),
    one_way: bool = False,
    servers: int = 1,
) -> Chooser:
    """Return the chooser of a job; with a fixed algorithm it has no choice.

    An option of one algorithm fixes it. Raises InputError for options that do not fit the algorithm or the fabric.
    """
    if algorithm == AUTO and (exchange or one_way or servers != 1):
        algorithm = "hips" if exchange or one_way else "ps"
    if algorithm == AUTO:
        found = _candidates(fabric)
    else:
        found = (Algorithm(algorithm, exchange, one_way, servers),)
        found[0].build(fabric, 1)
    return Chooser(fabric, found, constants(topology))


def of_settings(topology: Topology, fabric: Fabric, settings: Settings) -> Chooser:
    """Return the chooser of a job with these settings; raises what `chooser` raises."""
    s = settings
    return chooser(topology, fabric, s.algorithm, s.exchange, s.one_way, s.servers)


def _candidates(fabric: Fabric) -> tuple[Algorithm, ...]:
    """The algorithms that are worth a comparison: with the least bytes, and with the fewest steps."""
    name = "hips" if fabric.shape.hips else "mesh"
    if not fabric.shape.hips and len(fabric.servers) > _MOST_PEERS:
        return (Algorithm("ring"),)
    least = (Algorithm("hips"),) if fabric.shape.hips else (Algorithm("ring"), Algorithm("mesh"))
    return tuple(found for found in (*least, Algorithm(name, ("full",))) if _is_supported(found, fabric))


def _is_supported(algorithm: Algorithm, fabric: Fabric) -> bool:
    try:
        algorithm.build(fabric, 1)
    except InputError:
        return False
    return True


def label(algorithm: Algorithm) -> str:
    """Return the name of an algorithm with its exchange: hips, hips/full, hips/mesh,ring."""
    return algorithm.name + (f"/{','.join(algorithm.exchange)}" if algorithm.exchange else "")
