# SPDX-License-Identifier: Apache-2.0
"""The settings of one process of a job, and the environment variables that carry them.

`VARIABLES` is the one table of settings, variables and flags of `hipsnet run`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hipsnet.errors import InputError
from hipsnet.units import format_size, format_time, parse_size, parse_time

ALGORITHMS = ("auto", "hips", "ring", "mesh", "ps")
EXCHANGES = ("mesh", "ring", "ps", "full")
TOKEN_CHARACTERS = 16
"""The shortest token of a job of several ranks: 16 hexadecimal digits are 64 random bits."""
TRANSPORTS = ("tcp", "verbs", "xdp")


@dataclass(frozen=True)
class Kind:
    """The text form of a value: `parse` reads it (ValueError if it is not allowed), `show` writes it."""

    allowed: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str


@dataclass(frozen=True)
class Flag:
    """A flag of `hipsnet run` and its help; `group` is the heading above it."""

    name: str
    help: str
    metavar: str = "NAME"
    group: str = "How it is synchronized"


@dataclass(frozen=True)
class Variable:
    """One row: the field of `Settings`, the variable that carries it, the flag of `hipsnet run` if any."""

    field: str
    name: str
    kind: Kind
    flag: Flag | None = None
    is_secret: bool = False

    def read(self, text: str, source: str | None = None) -> Any:
        """Parse `text`. Raises InputError naming `source` (by default the variable) and the allowed values."""
        try:
            return self.kind.parse(text)
        except ValueError:
            found = f"{len(text)} characters" if self.is_secret else repr(text)
            raise InputError(f"{source or self.name}: found {found}; allowed: {self.kind.allowed}") from None


def _text(pattern: str, allowed: str) -> Kind:
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(text)
        return text

    return Kind(allowed, parse)


def _choice(values: tuple[str, ...]) -> Kind:
    return _text("|".join(values), ", ".join(values))


def _choices(values: tuple[str, ...]) -> Kind:
    def parse(text: str) -> tuple[str, ...]:
        found = tuple(text.split(",")) if text else ()
        if not set(found) <= set(values):
            raise ValueError(text)
        return found

    return Kind(f"{', '.join(values)}; or one for each level, separated by commas", parse, ",".join)


def _whole(low: int, high: int, unit: str = "") -> Kind:
    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,12}", text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    return Kind(f"a whole number{unit}, {low} to {high}", parse)


def _size(low: str, high: str) -> Kind:
    def parse(text: str) -> int:
        value = parse_size(text)
        if not parse_size(low) <= value <= parse_size(high):
            raise ValueError(text)
        return value

    def show(value: object) -> str:
        return format_size(value) if type(value) is int and value >= 0 else str(value)

    return Kind(f"a size like 512KiB, or bytes; {low} to {high}", parse, show)


_DAY_US = 86_400 * 10**6


def _seconds() -> Kind:
    def parse(text: str) -> float:
        time_us = parse_time(text, _DAY_US, bare="s")
        if time_us == 0:
            raise ValueError(text)
        return time_us / 1e6

    def show(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _DAY_US:
            return str(value)
        return format_time(round(value * 1e6))

    return Kind("seconds like 10 or 0.5, or 500ms, 10s, 2min; 1us to a day", parse, show)


def _switch() -> Kind:
    words = {"0": False, "1": True}

    def parse(text: str) -> bool:
        if text not in words:
            raise ValueError(text)
        return words[text]

    return Kind("0, 1", parse, lambda value: "1" if value is True else "0" if value is False else str(value))


_TIMEOUTS, _CARRIER, _RDMA = "Timeouts", "What carries the bytes", "RDMA queue pairs (verbs)"
_COUNT = _whole(0, 7)
VARIABLES = (
    Variable("rank", "RANK", _whole(0, 2**31 - 1)),
    Variable("world_size", "WORLD_SIZE", _whole(1, 2**31 - 1)),
    Variable("topology", "HIPSNET_TOPOLOGY", _text(r"[^\0]+", "the path of the topology file")),
    Variable(
        "algorithm", "HIPSNET_ALGORITHM", _choice(ALGORITHMS),
        Flag("--algorithm", "auto (by size, see `hipsnet calibrate`), hips, ring, mesh or ps"),
    ),
    Variable(
        "exchange", "HIPSNET_EXCHANGE", _choices(EXCHANGES),
        Flag("--exchange", "inside each level of hips: mesh, ring, ps or full; one for all, or a list: mesh,ring"),
    ),
    Variable(
        "one_way", "HIPSNET_ONE_WAY", _switch(),
        Flag("--one-way", "use each torus ring in one direction only", ""),
    ),
    Variable(
        "servers", "HIPSNET_SERVERS", _whole(1, 2**31 - 1),
        Flag("--servers", "parameter servers of ps", "NUMBER"),
    ),
    Variable(
        "transport", "HIPSNET_TRANSPORT", _choice(TRANSPORTS),
        Flag("--transport", "tcp (kernel sockets), xdp (RoCEv2 on AF_XDP) or verbs (RDMA NIC)", group=_CARRIER),
    ),
    Variable(
        "port", "HIPSNET_PORT", _whole(1, 65534),
        Flag("--port", "TCP port of the engine; MASTER_PORT is the next", "NUMBER", _CARRIER),
    ),
    Variable("token", "HIPSNET_TOKEN", _text(r"[\x21-\x7e]{0,64}", "up to 64 printable characters"), None, True),
    Variable(
        "timeout_s", "HIPSNET_TIMEOUT", _seconds(),
        Flag("--timeout", "declare a silent peer failed after this time (10, 500ms, 2min); "
             "without any progress, the job fails after twice this time", "TIME", _TIMEOUTS),
    ),
    Variable(
        "warn_s", "HIPSNET_WARN", _seconds(),
        Flag("--warn", "log a silent peer after this time", "TIME", _TIMEOUTS),
    ),
    Variable(
        "start_timeout_s", "HIPSNET_START_TIMEOUT", _seconds(),
        Flag("--start-timeout", "time for all ranks to start", "TIME", _TIMEOUTS),
    ),
    Variable(
        "chunk_bytes", "HIPSNET_CHUNK", _size("4KiB", "64MiB"),
        Flag("--chunk", "size of one write, 4KiB to 64MiB", "SIZE", _CARRIER),
    ),
    Variable(
        "congestion", "HIPSNET_CONGESTION",
        _text("[a-z][a-z0-9_]{0,14}", "a name out of /proc/sys/net/ipv4/tcp_available_congestion_control"),
        Flag("--congestion", "TCP congestion control", group=_CARRIER),
    ),
    Variable(
        "ack_timeout", "HIPSNET_ACK_TIMEOUT", _whole(1, 31, ", the n of 4.096 us x 2^n"),
        Flag("--ack-timeout", "retransmit a packet after 4.096 us x 2^N", "N", _RDMA),
    ),
    Variable(
        "retries", "HIPSNET_RETRIES", _COUNT,
        Flag("--retries", "retransmissions before the connection fails", "NUMBER", _RDMA),
    ),
    Variable(
        "rnr_retries", "HIPSNET_RNR_RETRIES", _COUNT,
        Flag("--rnr-retries", "RNR NAKs tolerated; 7: any number", "NUMBER", _RDMA),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The rank of one process in its job, and the options of synchronization.

    `exchange` is the exchange of hips inside a level: empty for the fabric's default (mesh on BCube, ring
    on Torus), one name for all levels, or one for each level. `one_way` uses each torus ring in one
    direction only. `servers` is the number of parameter servers of `ps`. `port` is the TCP port on every
    port address. `token` is the job's secret, of at least 16 characters if there are several ranks: connections
    without it are refused. Times are in seconds: a silent peer is logged after `warn_s` and declared failed after
    `timeout_s`; a job in which no rank makes progress fails after twice `timeout_s`; all ranks must start within
    `start_timeout_s`. `ack_timeout`, `retries` and `rnr_retries` are attributes of RDMA queue pairs
    (docs/roce.md). Raises InputError for a value that is not allowed.
    """

    rank: int
    world_size: int
    topology: str
    algorithm: str = "auto"
    exchange: tuple[str, ...] = ()
    one_way: bool = False
    servers: int = 1
    transport: str = "tcp"
    port: int = 29472
    token: str = ""
    timeout_s: float = 10.0
    warn_s: float = 5.0
    start_timeout_s: float = 60.0
    chunk_bytes: int = 256 * 1024
    congestion: str = "cubic"
    ack_timeout: int = 16
    retries: int = 7
    rnr_retries: int = 6

    def __post_init__(self) -> None:
        # A value is allowed if its text form can be parsed.
        for variable, text in zip(VARIABLES, self.to_environment().values(), strict=True):
            variable.read(text)
        if self.rank >= self.world_size:
            raise InputError(
                f"RANK: found {self.rank}; allowed: 0 to {self.world_size - 1}, one below WORLD_SIZE"
            )
        if self.world_size > 1 and len(self.token) < TOKEN_CHARACTERS:
            raise InputError(
                f"HIPSNET_TOKEN: has {len(self.token)} characters; a job of several ranks needs a secret of at "
                f"least {TOKEN_CHARACTERS}, the same on every rank, like the output of `openssl rand -hex 16` "
                "(`hipsnet run` makes one)"
            )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ, **given: Any) -> Settings:
        """Read the settings from `environ`; fields in `given` (if not None) take precedence.

        Raises InputError naming the variable, what was found and what is allowed.
        """
        values = {field: value for field, value in given.items() if value is not None}
        for variable in VARIABLES:
            if variable.field not in values and variable.name in environ:
                values[variable.field] = variable.read(environ[variable.name])
        for variable in VARIABLES[:3]:
            if variable.field not in values:
                raise InputError(
                    f"{variable.name} is not set; allowed: {variable.kind.allowed}. "
                    "Start the program with `hipsnet run topology.yaml -- program`, which sets it"
                )
        return cls(**values)

    def to_environment(self) -> dict[str, str]:
        """The variables that carry these settings to a process."""
        return {variable.name: variable.kind.show(getattr(self, variable.field)) for variable in VARIABLES}
