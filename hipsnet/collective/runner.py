# SPDX-License-Identifier: Apache-2.0
"""Runs the calls of a communicator on its engine: exceptions, warnings, and the words of errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hipsnet.collective.failure import Failure, Naming, standing
from hipsnet.collective.work import Callbacks, Work
from hipsnet.engine.engine import Call, Engine, EngineFailed, Limits, Piece, State
from hipsnet.engine.plans import PlanArrays
from hipsnet.errors import CollectiveError, TransportError
from hipsnet.transport.interface import Peer

log = logging.getLogger("hipsnet")


class Runner:
    """Owns the engine of one rank. After a call has failed, all later calls fail."""

    def __init__(
        self, engine: Engine, rank: int, peers: Sequence[Peer], limits: Limits, naming: Naming
    ) -> None:
        """`naming` returns the name of a collective by the `purpose` of `start`."""
        self.engine = engine
        self.callbacks = Callbacks(engine)
        self._rank = rank
        self._peers = peers
        self._limits = limits
        self._naming = naming
        self._warned: set[int] = set()  # connections

    def start(
        self,
        plan: PlanArrays,
        pieces: Sequence[Piece],
        dtype: np.dtype[Any],
        operation: str,
        *,
        purpose: int = 0,
        cuts: int = 0,
        is_async: bool = False,
        finish: Callable[[], None] | None = None,
    ) -> Work:
        """Start a call; the arguments are those of `Engine.submit`. Raises CollectiveError after a failure."""
        with self._failing_on_interrupt():
            try:
                call = self.engine.submit(
                    plan,
                    pieces,
                    dtype,
                    operation,
                    purpose=purpose,
                    cuts=cuts,
                    is_async=is_async,
                    finish=finish,
                )
            except EngineFailed:
                raise CollectiveError(f"rank {self._rank}: {self._refusal()}") from None
            except TransportError as error:
                self._abort(error)
                raise CollectiveError(f"rank {self._rank}: {error}") from error
        return Work(self, call)

    def wait(self, call: Call, timeout_s: float | None) -> State:
        """Wait for a call; an exception that is raised meanwhile by a signal handler fails all calls."""
        with self._failing_on_interrupt():
            return self.engine.wait(call, timeout_s, self._warn)

    def error(self, call: Call) -> CollectiveError:
        """The error of a call that has failed."""
        failure = self._failure()
        return CollectiveError(
            f"rank {self._rank}: collective {call.sequence} failed{failure.where(self._peers)}: "
            f"{failure.reason}; {standing(call.standing)}"
        )

    def close(self, error: BaseException | None = None) -> None:
        """Wait for the calls under way and their callbacks, then close the connections.

        After an exception of the program, the calls under way fail instead, on all ranks.
        """
        if error is not None and self.engine.is_busy:
            self._abort(error)
        self.engine.wait_all()
        self.callbacks.join()
        self.engine.close()

    @contextmanager
    def _failing_on_interrupt(self) -> Iterator[None]:
        try:
            yield
        except CollectiveError:
            raise
        except BaseException as error:
            self._abort(error)
            raise

    def _abort(self, error: BaseException) -> None:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        self.engine.fail(f"its call ended with {text}")

    def _failure(self) -> Failure:
        return Failure(self.engine, self._naming)

    def _refusal(self) -> str:
        if self.engine.failure() is None:
            return "the communicator is closed"
        return f"an earlier collective failed: {self._failure().reason}"

    def _warn(self) -> None:
        """Log each peer that is late once, until it is heard again."""
        for connection, peer in enumerate(self._peers):
            delay = self.engine.delay(connection)
            silent_s, absent_s = delay.silent_ns / 1e9, delay.absent_ns / 1e9
            is_late = max(silent_s, absent_s) >= self._limits.warn_s
            if is_late and connection not in self._warned:
                if silent_s >= self._limits.warn_s:
                    log.warning("rank %d: %s is silent for %.1f s", self._rank, peer, silent_s)
                else:
                    log.warning(
                        "rank %d: %s is alive, but has not called collective %d for %.1f s",
                        self._rank,
                        peer,
                        delay.sequence,
                        absent_s,
                    )
                self._warned.add(connection)
            elif not is_late:
                self._warned.discard(connection)
