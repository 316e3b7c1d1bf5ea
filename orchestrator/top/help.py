# SPDX-License-Identifier: Apache-2.0
"""The keys, and what the columns mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from orchestrator.top import severity
from orchestrator.top.line_view import Line, LineView

_TEXT = """\
Keys
 arrows j k PgUp PgDn Home End  move      Enter  one port, with its history
 1 2 3 4 Tab  ports, map, who, log        /      filter (Esc: all again)
 < >          sort by another column      + -    greatest, smallest first
 Space        hold the screen             q      quit, or back
Columns: Rx is received by the port, Tx sent by it
 Pr           priority; * all of them     RxPau/s TxPau/s  its PFC frames
 Rx%          of the time that the other end has stopped this port
 Tx%          of the time that this port has stopped the other end
 bit/s        with the Ethernet header    Drop/s ECN/s  frames lost, marked
 Buf%         of the buffer full, now     -   nobody counts it
 5*           counted for the whole port, not by priority
Signs: how long it pauses
 · not  ░ some  ▒ 10 %  ▓ 50 %  █ 99 % of the time, or a storm  x link down
 without a count of time, by frames: ░ any  ▒ 10/s  ▓ 100/s
Who pauses whom
 The culprit's port stops the victim's. A culprit may itself be a victim:
 `Begins at`: who stops others without being stopped, and its longest queue.
Filter: words, all of which have to be in a line
 s01  l0g2  p3 (priority 3)  server  switch  level1  paused  storm  down"""


class HelpView(LineView):
    """The text."""

    def count(self) -> int:
        return len(_TEXT.splitlines())

    def heading(self) -> Sequence[Line]:
        return ()

    def line(self, index: int) -> Line:
        text = _TEXT.splitlines()[index]
        return ((f" {text}", severity.PLAIN if text.startswith(" ") else severity.TITLE),)


class HelpScreen(Screen[None]):
    """The text on a screen of its own; any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,question_mark,space", "app.pop_screen", show=False)
    ]

    def compose(self) -> ComposeResult:
        yield HelpView()

    def on_mount(self) -> None:
        """Show it."""
        self.query_one(HelpView).focus()
