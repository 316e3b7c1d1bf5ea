# SPDX-License-Identifier: Apache-2.0
"""The hierarchy of errors. A message states the problem, the value found, and the remedy."""

from __future__ import annotations

import signal


class HipsnetError(Exception):
    """Base class of all errors of hipsnet. `exit_code` is the exit code of the command line."""

    exit_code = 1


class InputError(HipsnetError):
    """A file, an option or an argument is wrong. Nothing was changed."""

    exit_code = 2


class TopologyError(InputError):
    """A topology file is wrong; the message names file, line, key, what was found and what is allowed."""


class CapabilityError(HipsnetError):
    """The machine lacks a privilege, a kernel feature or a package."""


class ConflictError(HipsnetError):
    """An object that hipsnet did not make has the name of one that it has to make; it was not touched."""


class Interrupted(HipsnetError):
    """A signal of this number ended the command; the message says how to continue."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class ProvisionError(HipsnetError):
    """A node does not have its configuration: it is not provisioned, or cannot be."""


class ScheduleError(HipsnetError):
    """A schedule does not compute its collective."""


class TransportError(HipsnetError):
    """A connection failed, or could not be established."""


class CollectiveError(TransportError):
    """A collective was abandoned; no partial result may be used.

    The message names rank, peer, level, thread, stage and bytes done where they are known.
    """
