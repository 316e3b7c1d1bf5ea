# SPDX-License-Identifier: Apache-2.0
"""Report, when a provision is interrupted, what exists and how to continue."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hipsnet.errors import Interrupted
from hipsnet.topology import Fabric
from orchestrator.lab.namespaces import places

_AS_CTRL_C = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def completable(there: Callable[[], str], provision: str, destroy: str) -> Iterator[None]:
    """Run a block that Ctrl-C, SIGTERM or SIGHUP may end; raises Interrupted with the text of `there` and advice.

    `provision` and `destroy` are the arguments of the commands that complete and remove the fabric.
    """
    # An ignored signal, as under nohup, stays ignored.
    ours = [number for number in _AS_CTRL_C if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    except KeyboardInterrupt as interrupt:
        (number,) = interrupt.args or (signal.SIGINT,)
        raise Interrupted(
            f"{there()}; `hipsnet provision {provision}` completes it, "
            f"`hipsnet destroy {destroy}` removes it",
            number,
        ) from None
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number))


def nodes_there(fabric: Fabric) -> str:
    """A sentence that says how many nodes an interrupted provision has left."""
    found = places(fabric.name, fabric.nodes).values()
    made = sum(place.standing == "ours" and place.node in fabric.nodes for place in found)
    return f"{fabric.name}: interrupted, {made} of its {len(fabric.nodes)} nodes exist"
