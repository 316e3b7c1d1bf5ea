# SPDX-License-Identifier: Apache-2.0
"""What `hipsnet predict` is asked: fabrics, algorithms, sizes and conditions, out of the command's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsnet.collective.algorithms import NAMES, Algorithm
from hipsnet.collective.models import ITEM_BYTES
from hipsnet.errors import InputError
from hipsnet.predict.closed import Constants
from hipsnet.predict.conditions import Conditions
from hipsnet.predict.prediction import Call, Subject, defined
from hipsnet.topology import build
from hipsnet.units import given, parse_rate, parse_time
from orchestrator import topology_file
from orchestrator.jobs.measurement import Case

ALL = "all"
DAY_US = 86_400 * 10**6
_OF_HIPS, _OF_PS = ("exchange", "one_way"), ("servers",)


@dataclass(frozen=True)
class Options:
    """The options as given on the command line; None, False or empty if not given."""

    algorithm: str = "hips"
    dtype: str = "float32"
    latency: str = "0us"
    rate: str | None = None
    cpu: str | None = None
    degrade: Sequence[str] = ()
    late: Sequence[str] = ()
    quantum: str = "0us"
    seed: int = 0
    fluid: bool = True

    def constants(self) -> Constants:
        """The constants of the closed forms."""
        return Constants(latency_s=seconds("--latency", self.latency))

    def conditions(self, subject: Subject) -> Conditions:
        """The conditions of the simulation."""
        return Conditions(
            latency_s=seconds("--latency", self.latency),
            cable_delay_s=subject.cable_delay_s,
            cpu_bps=None if self.cpu is None else rate("--cpu", self.cpu),
            cables=_pairs("--degrade", self.degrade, _share),
            late_s=_pairs("--late", self.late, lambda text: seconds("--late", text)),
            quantum_s=seconds("--quantum", self.quantum),
        )


def subject(file: Path, options: Options) -> Subject:
    """The fabric of a file. Raises InputError if its ports have no rate."""
    topology = topology_file.read(file)
    rate_bps = topology.link.rate_bps if options.rate is None else rate("--rate", options.rate)
    if rate_bps is None:
        raise InputError(
            f"{file}: link.rate: found unlimited; a prediction needs the rate of the ports; give --rate 100Gbit/s"
        )
    return Subject(
        topology.name,
        topology.fabric,
        rate_bps,
        topology.link.delay_us / 1e6,
        lambda: build(topology),
        options.seed,
    )


def calls(
    of: Subject, name: str, cases: Sequence[Case], dtype: str, engine: Mapping[str, Any]
) -> list[tuple[Case, Call]]:
    """The synchronizations to predict, algorithm by algorithm; `name` is one of them, or all.

    `engine` holds the settings that were given. With `all`, an option applies to the algorithm that has it, and
    algorithms that the fabric does not support are left out.
    """
    settings = dict(engine)
    chunk = {"chunk_bytes": settings.pop("chunk_bytes")} if "chunk_bytes" in settings else {}
    found = []
    for algorithm in _algorithms(of, name, settings):
        for case in cases:
            found.append((case, Call(algorithm, case.counts, ITEM_BYTES[dtype], **chunk)))
    return found


def _algorithms(of: Subject, name: str, settings: Mapping[str, Any]) -> list[Algorithm]:
    if name not in (*NAMES, ALL):
        raise InputError(f"--algorithm: found {name!r}; allowed: {', '.join((*NAMES, ALL))}")
    if name != ALL:
        algorithm = Algorithm(name, **settings)
        algorithm.hierarchy(of.shape)
        return [algorithm]
    owned = {"hips": _OF_HIPS, "ps": _OF_PS}
    every = [
        Algorithm(one, **{key: settings[key] for key in owned.get(one, ()) if key in settings})
        for one in NAMES
    ]
    return [algorithm for algorithm in every if defined(of.shape, algorithm)]


def seconds(flag: str, text: str) -> float:
    """A time as an option gives it."""
    return given(flag, text, lambda found: parse_time(found, DAY_US, bare="s")) / 1e6


def rate(flag: str, text: str) -> int:
    """A rate as an option gives it; InputError for `unlimited`."""
    found = given(flag, text, parse_rate)
    if found is None:
        raise InputError(f"{flag}: found unlimited; allowed: a rate like 100Gbit/s")
    return found


def _share(text: str) -> float:
    number = float(text.removesuffix("%"))
    return number / 100 if text.endswith("%") else number


def _pairs(flag: str, texts: Sequence[str], parse: Callable[[str], float]) -> dict[str, float]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            if not equals:
                raise ValueError
            pairs[name] = parse(value)
        except ValueError:
            raise InputError(f"{flag}: found {text!r}; allowed: {_EXAMPLES[flag]}") from None
    return pairs


_EXAMPLES = {
    "--degrade": "a port and the share of its rate that is left, such as s11.p0=50%",
    "--late": "a server and a time, such as s01=1s",
}
