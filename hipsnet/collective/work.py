# SPDX-License-Identifier: Apache-2.0
"""Collectives under way: waiting, results, and callbacks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from hipsnet.engine.engine import Call, Engine, EngineFailed, State
from hipsnet.errors import CollectiveError

log = logging.getLogger("hipsnet")

Callback = Callable[["Work"], None]


class Owner(Protocol):
    """What a work needs of the communicator's runner."""

    engine: Engine
    callbacks: Callbacks

    def wait(self, call: Call, timeout_s: float | None) -> State:
        """Wait for a call, log slow peers, and fail all calls if a signal handler raises."""

    def error(self, call: Call) -> CollectiveError:
        """The error of a call that has failed."""


class Work:
    """A collective that has been started. Its arrays must not be used until it is completed."""

    def __init__(self, owner: Owner, call: Call) -> None:
        self._owner = owner
        self._call = call
        self._error: CollectiveError | None = None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the collective is completed: then its results are in the arrays.

        `timeout`: seconds. Raises CollectiveError if it fails, and TimeoutError if the timeout expires; the
        collective continues then. An exception that a signal handler raises meanwhile, like KeyboardInterrupt,
        ends all collectives on all ranks.
        """
        if not self._call.is_over and self._owner.wait(self._call, timeout) == State.ACTIVE:
            raise TimeoutError(f"the collective is not completed after {timeout:g} s")
        error = self.exception()
        if error is not None:
            raise error

    def is_completed(self) -> bool:
        """Whether the collective has ended: with its results in the arrays, or with an error."""
        return self._owner.engine.poll(self._call) != State.ACTIVE

    def exception(self) -> CollectiveError | None:
        """The error of a collective that has failed; None if it is completed without error or not completed."""
        if not self.is_completed() or self._call.state == State.DONE:
            return None
        if self._error is None:
            self._error = self._owner.error(self._call)
        return self._error

    def add_done_callback(self, callback: Callback) -> None:
        """Call `callback(work)` once the collective is completed: at once if it is, else in another thread.

        One thread of the communicator runs the callbacks, those of one work in the order of their addition.
        They may start collectives. An exception of a callback is logged.
        """
        self._owner.callbacks.add(self, callback)


class Callbacks:
    """The callbacks of a communicator, run by a thread that lives while works with callbacks are under way."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._waiting: dict[Work, list[Callback]] = {}
        self._thread: threading.Thread | None = None

    def add(self, work: Work, callback: Callback) -> None:
        with self._lock:
            is_late = work not in self._waiting and work.is_completed()
            if not is_late:
                self._waiting.setdefault(work, []).append(callback)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="hipsnet-callbacks", daemon=True)
                    self._thread.start()
        if is_late:
            _call(callback, work)

    def join(self) -> None:
        """Wait until all callbacks have returned; all works are completed."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        ended = 0
        try:
            while works := self._still_waiting():
                for work in works:
                    if work.is_completed():
                        self._call_back(work)
                if self._waiting:
                    ended = self._engine.wait_any(ended)
        except EngineFailed:
            return  # the program ends

    def _still_waiting(self) -> list[Work]:
        with self._lock:
            if not self._waiting:
                self._thread = None
            return list(self._waiting)

    def _call_back(self, work: Work) -> None:
        with self._lock:
            callbacks = self._waiting.pop(work)
        for callback in callbacks:
            _call(callback, work)


def _call(callback: Callback, work: Work) -> None:
    try:
        callback(work)
    except Exception:
        log.exception("a callback of a collective has failed")
