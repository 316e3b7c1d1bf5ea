# SPDX-License-Identifier: Apache-2.0
"""The help screen: keys, columns, signs."""

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
 arrows j k PgUp PgDn Home End  move      Enter  one port with its history
 1 2 3 4 Tab  ports, map, pauses, log     /      filter (Esc: show all)
 < >          sort by another column      + -    largest, smallest first
 Space        hold the screen             q      quit; q or Esc: back
Columns: Rx is received by the port, Tx is sent by it
 Pr           priority; * the whole port  RxPau/s TxPau/s  PFC frames
 Rx%          share of time for which the other end paused this port
 Tx%          share of time for which this port paused the other end
 Rxbps Txbps  bit/s, Ethernet headers     Drop/s ECN/s  frames lost, marked
 Buf%         share of the buffer in use  -      not counted
 5*           counted for the whole port, not by priority
Top line: paused ports, storms, ports down, frames lost; bit/s that servers
 send: a frame counts once, and again at each server that forwards it
Signs: share of time paused
 · 0  ░ > 0  ▒ 10 %  ▓ 50 %  █ 99 % or a storm  x link down
 without a count of time, by frames: ░ > 0  ▒ 10/s  ▓ 100/s
Pauses: the culprit's port pauses the victim's; a culprit may be a victim, too
 `Begins at`: the node that pauses others and is not paused; its longest queue
Filter: a line matches if it contains all words
 s01  l0g2  p3 (priority 3)  server  switch  level1  paused  storm  down"""


class HelpView(LineView):
    """The lines of the help text."""

    def count(self) -> int:
        return len(_TEXT.splitlines())

    def heading(self) -> Sequence[Line]:
        return ()

    def line(self, index: int) -> Line:
        text = _TEXT.splitlines()[index]
        return ((f" {text}", severity.PLAIN if text.startswith(" ") else severity.TITLE),)


class HelpScreen(Screen[None]):
    """The text on a screen of its own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,question_mark,space", "app.pop_screen", show=False)
    ]

    def compose(self) -> ComposeResult:
        yield HelpView()

    def on_mount(self) -> None:
        """Give the text the keys that scroll."""
        self.query_one(HelpView).focus()
