# SPDX-License-Identifier: Apache-2.0
"""The options of `hipsnet run`, and the measurement that they select."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path

from hipsnet.collective import models
from hipsnet.collective.collectives import Collective
from hipsnet.errors import InputError
from hipsnet.topology import Fabric
from hipsnet.units import approximate_size, given, parse_size
from orchestrator.jobs.measurement import Case, Measurement, count

FIRST_SIZE, LAST_SIZE, FACTOR = "1KiB", "64MiB", 4
DTYPE, ITERATIONS, WARMUP = "float32", 10, 2


@dataclass(frozen=True)
class Request:
    """The options that select the measurement, as given; None or False if not given."""

    size: str | None = None
    sizes: str | None = None
    begin: str | None = None
    end: str | None = None
    factor: int | None = None
    model: str | None = None
    dtype: str | None = None
    iters: int | None = None
    warmup: int | None = None
    check: bool = False
    json: str | None = None
    collective: str | None = None
    root: int | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The flags that were given."""
        return tuple(
            f"--{field.name}" for field in fields(self) if getattr(self, field.name) not in (None, False)
        )

    def measurement(self, fabric: Fabric) -> Measurement:
        """The measurement on a fabric.

        Raises InputError for options that exclude each other, or if the vectors exceed this machine's free memory.
        """
        dtype, collective = self.dtype or DTYPE, self._collective(fabric)
        measurement = Measurement(
            cases=tuple(_even(case, collective, len(fabric.servers)) for case in self.vectors(dtype)),
            dtype=dtype,
            iterations=ITERATIONS if self.iters is None else self.iters,
            warmup=WARMUP if self.warmup is None else self.warmup,
            check=self.check,
            collective=collective.name,
            root=collective.root,
        )
        _require_memory(fabric, measurement)
        return measurement

    def _collective(self, fabric: Fabric) -> Collective:
        collective = Collective(self.collective or "all_reduce", self.root or 0)
        collective.terms(0, len(fabric.servers))  # checks the root
        if collective.name == "barrier":
            raise InputError(
                "--collective: a barrier has no size; measure an all_reduce of one element instead"
            )
        if self.model is not None and collective.name != "all_reduce":
            raise InputError("--model: gradients are synchronized by all_reduce; leave out --collective")
        return collective

    def vectors(self, dtype: str) -> tuple[Case, ...]:
        """The vectors to synchronize; InputError for options that exclude each other."""
        ways = [flag for flag in self.given if flag in ("--size", "--sizes", "--model")]
        ways += [flag for flag in self.given if flag in ("--begin", "--end", "--factor")][:1]
        if len(ways) > 1:
            raise InputError(
                f"{ways[0]} and {ways[1]} exclude each other; give one of --size, --sizes, --model, "
                "or --begin with --end and --factor"
            )
        if self.model is not None:
            return (Case(models.buckets(self.model, dtype), self.model),)
        if self.size is not None:
            sizes, flag = listed(self.size, "--size"), "--size"
        elif self.sizes is not None:
            sizes, flag = listed(self.sizes, "--sizes"), "--sizes"
        else:
            sizes, flag = self._range(), "--begin"
        return tuple(Case((count(size, dtype, flag),)) for size in sizes)

    def _range(self) -> tuple[int, ...]:
        first = given("--begin", self.begin or FIRST_SIZE, parse_size)
        last = given("--end", self.end or LAST_SIZE, parse_size)
        if not 0 < first <= last:
            raise InputError(f"--begin: found {first} B; allowed: 1 B to {last} B, which is --end")
        return _multiples(first, last, FACTOR if self.factor is None else self.factor)


def _even(case: Case, collective: Collective, ranks: int) -> Case:
    """The case with a length that all ranks share equally: at least one element for each."""
    if not collective.has_shares:
        return case
    return Case(tuple(max(1, count // ranks) * ranks for count in case.counts), case.model)


def _require_memory(fabric: Fabric, measurement: Measurement) -> None:
    """Raise InputError if the vectors of all servers exceed this machine's free memory."""
    largest = max(measurement.size_bytes(case) for case in range(len(measurement.cases)))
    if measurement.collective not in ("all_reduce", "broadcast"):
        largest *= 2  # an input and an output, or a copy
    text = re.search(r"MemAvailable: *([0-9]+) kB", Path("/proc/meminfo").read_text())
    if text and len(fabric.servers) * largest > int(text[1]) * 1024:
        raise InputError(
            f"--size: found {approximate_size(largest)}; {len(fabric.servers)} servers need "
            f"{approximate_size(len(fabric.servers) * largest)} of memory for it, but this machine has only "
            f"{approximate_size(int(text[1]) * 1024)} left"
        )


def listed(text: str, flag: str = "--sizes") -> tuple[int, ...]:
    """The sizes in bytes of `64MiB`, `1KiB,1MiB` or `FIRST:LAST:xFACTOR`; InputError naming `flag` otherwise."""
    if ":" not in text:
        return tuple(given(flag, size, parse_size) for size in text.split(","))
    parts = re.fullmatch(r"([^:]+):([^:]+):x([0-9]{1,9})", text)
    if parts is None or int(parts[3]) < 2:
        raise InputError(f"{flag}: found {text!r}; allowed: FIRST:LAST:xFACTOR like 1KiB:64MiB:x4, or a list")
    first, last = (given(flag, part, parse_size) for part in parts.groups()[:2])
    factor = int(parts[3])
    if not 0 < first <= last:
        raise InputError(f"{flag}: found {text!r}; the first size must be above 0 and at most the last one")
    return _multiples(first, last, factor)


def _multiples(first: int, last: int, factor: int) -> tuple[int, ...]:
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)
