# SPDX-License-Identifier: Apache-2.0
"""The application: its views and keys, and one poll of the fabric for each interval."""

from __future__ import annotations

import gc
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.widgets import Input

from orchestrator.telemetry.monitor import Monitor, Snapshot
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.top import severity
from orchestrator.top.bars import KeyBar, ProcessBanner, StatusBar
from orchestrator.top.detail import DetailScreen
from orchestrator.top.help import HelpScreen
from orchestrator.top.line_view import LineView
from orchestrator.top.log_view import LogView
from orchestrator.top.map_view import MapView
from orchestrator.top.pause_view import PauseView
from orchestrator.top.port_table import PortTable

_VIEWS = ("ports", "map", "pauses", "log")
_WIDE, _HIGH = 150, 34


class TopApp(App[None]):
    """`hipsnet top`. On a large screen all views are side by side, otherwise one at a time."""

    TITLE = "hipsnet top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    *:nocolor { background: ansi_default; color: ansi_default; }
    Screen { layout: vertical; background: #11151a; color: #d5dbe3; }
    #views { height: 1fr; }
    #side { width: 1fr; }
    LineView { width: 1fr; height: 1fr; }
    StatusBar, KeyBar { height: 1; background: #1e2630; }
    ProcessBanner { height: auto; }
    Input { height: 1; border: none; padding: 0 1; background: #1e2630; display: none; }
    .wide #ports { width: 118; }
    .wide #side { border-left: solid #2c3846; }
    .wide #pauses, .wide #log { margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", show=False),
        Binding("question_mark", "help", show=False),
        # With priority over the views: the keys that follow must find the box open.
        Binding("slash", "filter", show=False, priority=True),
        Binding("escape", "unfilter", show=False),
        Binding("space,f", "freeze", show=False),
        Binding("less_than_sign,left", "sort(-1)", show=False),
        Binding("greater_than_sign,right", "sort(1)", show=False),
        Binding("plus", "descending(True)", show=False),
        Binding("minus", "descending(False)", show=False),
        *(Binding(str(at + 1), f"view('{name}')", show=False) for at, name in enumerate(_VIEWS)),
        Binding("tab", "next_view(1)", show=False, priority=True),
        Binding("shift+tab", "next_view(-1)", show=False, priority=True),
    ]

    def __init__(self, ports: WatchedPorts, monitor: Monitor, interval_s: float) -> None:
        super().__init__(ansi_color=not severity.HAS_COLOR)
        self._monitor, self._interval_s = monitor, interval_s
        self.table = PortTable(ports, monitor.pasts, id="ports")
        self.map = MapView(ports, id="map")
        self.pauses = PauseView(ports, id="pauses")
        self.log_view = LogView(id="log")
        self.status, self.banner = StatusBar(ports), ProcessBanner()
        self.filter_box = Input(placeholder="words, such as: s01 paused", id="filter")
        self.snapshot: Snapshot | None = None
        self.is_frozen = False
        self._view = "ports"

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.banner
        with Horizontal(id="views"):
            yield self.table
            with Vertical(id="side"):
                yield self.map
                yield self.pauses
                yield self.log_view
        yield self.filter_box
        yield KeyBar()

    def on_mount(self) -> None:
        """Poll at once, and then after each interval."""
        self._arrange()
        self.table.focus()
        self.poll()
        # The present objects stay: collecting them again and again would be half of the work.
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        self.set_interval(self._interval_s, self.poll)

    def poll(self) -> None:
        """Read all counters, and show them unless the screen is held."""
        snapshot = self._monitor.poll()
        self.log_view.add(snapshot.events)
        if not self.is_frozen:
            self.snapshot = snapshot
            self._show()

    def _show(self) -> None:
        if self.snapshot is None:
            return
        for view in (self.table, self.map, self.pauses):
            view.show(self.snapshot)
        if isinstance(self.screen, DetailScreen):
            self.screen.view.show(self.snapshot)
        self.banner.show(self.snapshot)
        self.status.show(self.snapshot, self.table, self.log_view.last, self.is_frozen)

    def on_resize(self, _: Resize) -> None:
        """Arrange the views for the new size."""
        self._arrange()
        self.call_after_refresh(self._show)

    def on_line_view_chosen(self, message: LineView.Chosen) -> None:
        """Show one port."""
        chosen = self.table.chosen()
        if message.view is self.table and chosen is not None and self.snapshot is not None:
            self.push_screen(DetailScreen(self.snapshot, self._monitor.past, *chosen))

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filter while the words are typed."""
        self.table.filter(message.value)
        self._show()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Return to the table; the filter stays."""
        self.filter_box.display = False
        self.screen.set_focus(self.table)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A slash typed into the box is a character of the filter."""
        return not (action == "filter" and (self.focused is self.filter_box or not self._is_alone()))

    def action_help(self) -> None:
        """Show the help screen."""
        if self._is_alone():
            self.push_screen(HelpScreen())

    def action_filter(self) -> None:
        """Open the box for the filter."""
        if self._is_alone():
            self.action_view("ports")
            self.filter_box.display = True
            self.screen.set_focus(self.filter_box)  # at once: the next keys may have arrived

    def action_unfilter(self) -> None:
        """Show all lines again."""
        if self._is_alone():
            self.filter_box.value = ""
            self.filter_box.display = False
            self.screen.set_focus(self.table)

    def action_freeze(self) -> None:
        """Hold the screen, or release it."""
        self.is_frozen = not self.is_frozen
        self._show()

    def action_sort(self, by: int) -> None:
        """Sort by another column."""
        self.table.sort(self.table.sort_by + by, self.table.descending)
        self._show()

    def action_descending(self, descending: bool) -> None:
        """Sort the largest first, or the smallest."""
        self.table.sort(self.table.sort_by, descending)
        self._show()

    def action_view(self, name: str) -> None:
        """Go to a view."""
        if self._is_alone():
            self._view = name
            self._arrange()
            self.screen.set_focus(self.query_one(f"#{name}"))
            self.call_after_refresh(self._show)

    def action_next_view(self, by: int) -> None:
        """Go to the next view, or the previous."""
        self.action_view(_VIEWS[(_VIEWS.index(self._view) + by) % len(_VIEWS)])

    def _is_alone(self) -> bool:
        """Whether neither help nor a single port is shown above the views."""
        return len(self.screen_stack) == 1

    def _arrange(self) -> None:
        """Show all views if they fit, otherwise the selected one."""
        wide = self.size.width >= _WIDE and self.size.height >= _HIGH
        main = self.screen_stack[0]
        main.set_class(wide, "wide")
        for name in _VIEWS:
            main.query_one(f"#{name}").display = wide or name == self._view
        main.query_one("#side").display = wide or self._view != "ports"
        most = self.size.height // 2
        self.map.styles.height = min(self.map.lines, most) if wide else "1fr"
