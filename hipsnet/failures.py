# SPDX-License-Identifier: Apache-2.0
"""Reports of an exception that ends a rank, from the rank to the launcher of its job.

`hipsnet run` listens at a Unix datagram socket whose path is in HIPSNET_FAILURES, so that it can print one message
where all ranks would print a traceback each. Without a launcher, or where the report cannot be delivered, the
exception is printed as always.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from dataclasses import asdict, dataclass
from types import TracebackType

from hipsnet.errors import HipsnetError, TransportError

VARIABLE = "HIPSNET_FAILURES"
REPORT_BYTES = 1 << 16
"""No report is longer; the end of a traceback is kept."""

_SEND_S = 2.0
_TEXT_CHARACTERS = 8000  # six bytes each in JSON at the most


@dataclass(frozen=True)
class Failure:
    """The end of a rank: an exception of class `kind` with its message and traceback, as text.

    `is_expected` is true for the errors of hipsnet, which the launcher prints in the program's place; `is_survivor`
    for those that another rank or the network has caused.
    """

    rank: int
    kind: str
    message: str
    traceback: str
    is_expected: bool
    is_survivor: bool

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Failure:
        """Parse the output of `to_bytes`. Raises ValueError for anything else."""
        try:
            fields = json.loads(data)
            failure = cls(**fields)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no failure report: {error}") from None
        for field, kind in cls.__annotations__.items():
            if type(getattr(failure, field)).__name__ != kind:
                raise ValueError(f"no failure report: {field} is no {kind}")
        return failure


def report(error: BaseException, trace: TracebackType | None = None) -> bool:
    """Send an exception to the launcher. Returns False if there is none, or if it cannot be reached."""
    path, rank = os.environ.get(VARIABLE), os.environ.get("RANK", "")
    if not path or not rank.isdecimal():
        return False
    text = "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    failure = Failure(
        rank=int(rank),
        kind=type(error).__name__,
        message=str(error)[:_TEXT_CHARACTERS],
        traceback=text[-_TEXT_CHARACTERS:],
        is_expected=isinstance(error, HipsnetError),
        is_survivor=isinstance(error, TransportError),
    )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_S)
            sender.sendto(failure.to_bytes(), path)
    except OSError:
        return False
    return True


def install() -> None:
    """Under `hipsnet run`, report an uncaught exception; an error of hipsnet is then not printed here.

    A hook that the program has set before is called for all other exceptions; one that it sets later replaces
    this one.
    """
    if not os.environ.get(VARIABLE) or getattr(sys.excepthook, "is_of_hipsnet", False):
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if report(error, trace) and isinstance(error, HipsnetError):
            return
        before(kind, error, trace)

    hook.is_of_hipsnet = True  # type: ignore[attr-defined]
    sys.excepthook = hook
