# SPDX-License-Identifier: Apache-2.0
"""The one hierarchy of errors: each tells what was wanted, what was found, and what to do."""

from __future__ import annotations

import signal


class HipsnetError(Exception):
    """Base of every error that hipsnet raises on purpose. `exit_code` is the command line's answer."""

    exit_code = 1


class InputError(HipsnetError):
    """What the user gave (a file, an option, an argument) is wrong. Nothing was changed."""

    exit_code = 2


class TopologyError(InputError):
    """A topology file is wrong; the message names file, line, key, what was found and what is allowed."""


class CapabilityError(HipsnetError):
    """The machine lacks what is needed: a privilege, a kernel feature, a package."""


class ConflictError(HipsnetError):
    """Something that hipsnet did not make stands where hipsnet has to build; it was not touched."""


class Interrupted(HipsnetError):
    """The user ended what was under way, by a signal of this number; the message says how to go on."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class ProvisionError(HipsnetError):
    """A node could not be brought to its configuration."""


class ScheduleError(HipsnetError):
    """A schedule does not compute the collective that it claims to."""


class TransportError(HipsnetError):
    """A connection could not be made or failed."""


class CollectiveError(TransportError):
    """A collective was abandoned; no partial result may be used.

    The message names rank, peer, level, thread, stage and bytes done where they are known.
    """
