# SPDX-License-Identifier: Apache-2.0
"""The words of a failure that the engine has detected or received."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hipsnet.engine.engine import OPERATIONS, Engine, Reason
from hipsnet.engine.reduction import DTYPES
from hipsnet.transport.interface import Peer

Naming = Callable[[int, str], str]
"""The name of a collective by the `purpose` and the operation of its signature."""

_STEPS_PER_STAGE = 2  # core/stall.h


class Failure:
    """The failure of an engine in words."""

    def __init__(self, engine: Engine, naming: Naming) -> None:
        """`engine` has failed."""
        self._found = engine.failure()
        self._library = engine.library
        self._naming = naming

    @property
    def reason(self) -> str:
        """The culprit, the reason, and the rank that has detected it: the same text on every rank."""
        culprit, level = int(self._found.culprit), int(self._found.level)
        prefix = f"rank {culprit}: " if culprit >= 0 else ""
        has_level = level != self._library.lib.CORE_NO_LEVEL
        seen = f" (seen by rank {self._found.seen_by} at level {level})" if has_level else ""
        return f"{prefix}{self._words()}{seen}"

    def where(self, peers: Sequence[Peer]) -> str:
        """How this rank came to know: by a peer's report, or on a connection of its own."""
        if self._found.reported_by >= 0:
            return f", reported by {peers[self._found.reported_by]}"
        if self._found.connection >= 0:
            return f", at {peers[self._found.connection]}"
        return ""

    def _words(self) -> str:
        reason, values = Reason(self._found.reason), self._found.values
        if reason == Reason.SILENT:
            return f"it has been silent for {_seconds(values[0])}"
        if reason == Reason.ABSENT:
            last = f"its last one was {values[1]}" if values[1] else "it has not called yet"
            return f"it is alive, but has not called for {_seconds(values[0])}; {last}"
        if reason == Reason.STALLED:
            return self._stall()
        if reason == Reason.MISMATCH:
            return self._mismatch()
        words: bytes = self._library.ffi.string(self._found.words)
        # A peer may have sent the words: keep control characters off the terminal.
        return "".join(c if c.isprintable() else "?" for c in words.decode(errors="replace"))

    def _stall(self) -> str:
        age_ns, position = self._found.values
        stage = position & 0xFFFFFFFF
        done = self._library.lib.STEP_DONE // _STEPS_PER_STAGE
        where = f"stage {stage}" if stage != done else "which it has finished"
        return (
            f"no rank has made progress for {_seconds(age_ns)}, and rank {self._found.culprit} is furthest "
            f"behind, in collective {position >> 32}, {where}"
        )

    def _mismatch(self) -> str:
        ours, theirs = self._call(self._found.ours), self._call(self._found.theirs)
        if ours == theirs:
            theirs += " (divided into other arrays or shares)"
        return (
            f"it entered collective {self._found.values[0]} with {theirs}, but rank {self._found.seen_by} "
            f"entered it with {ours}; every rank must make the same calls in the same order, with the same "
            "size, dtype and op"
        )

    def _call(self, signature: Any) -> str:
        name = self._naming(int(signature.purpose), OPERATIONS[signature.operation])
        return f"{name} of {signature.count} x {DTYPES[signature.dtype].name}"


def standing(found: Any) -> str:
    """`struct call_standing` (or None) in words: the first missing segment, and the bytes received."""
    if found is None:
        return "nothing more was awaited"
    where = "nothing more was awaited"
    if found.is_waiting:
        where = f"waiting for thread {found.thread}, stage {found.stage}"
    return f"{where}; {found.bytes_received} of {found.bytes_total} bytes received"


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.1f} s"
