# SPDX-License-Identifier: Apache-2.0
"""The number by which ranks compare what they call: the collective and its root."""

from __future__ import annotations

from hipsnet.collective.collectives import NAMES, Collective

_ROOT_SHIFT = 8
_DIRECTION = {"broadcast": "from", "scatter": "from", "reduce": "to", "gather": "to"}


def purpose_of(collective: Collective) -> int:
    """32 bits for the signature of a call."""
    return NAMES.index(collective.name) | collective.root << _ROOT_SHIFT


def name_of(purpose: int, operation: str) -> str:
    """The name of a collective, for messages. A peer may have sent any number."""
    number, root = purpose & (1 << _ROOT_SHIFT) - 1, purpose >> _ROOT_SHIFT
    if number >= len(NAMES):
        return f"collective of kind {number}"
    collective = Collective(NAMES[number])
    if collective.name == "all_reduce":
        return operation
    name = f"{collective.name} ({operation})" if operation != "copy" else collective.name
    return f"{name} {_DIRECTION[collective.name]} rank {root}" if collective.has_root else name
