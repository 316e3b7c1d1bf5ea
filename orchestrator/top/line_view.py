# SPDX-License-Identifier: Apache-2.0
"""A widget of lines: only visible lines are made, and only what changed is drawn.

Textual's own table visits every cell for each update; a fabric has thousands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from orchestrator.top import severity

Line = tuple[tuple[str, Style], ...]
_NOWHERE = 1 << 20
SELECTED = Style(bgcolor="#2b4059", bold=True) if severity.HAS_COLOR else Style(reverse=True)


class LineView(Widget, can_focus=True):
    """Lines below a fixed heading. Subclasses define their number and content.

    `cursor` is the selected line if lines can be selected; otherwise the arrow keys scroll.
    """

    has_cursor: ClassVar[bool] = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,ctrl+d", "page(1)", show=False),
        Binding("pageup,ctrl+u", "page(-1)", show=False),
        Binding("home,g", "move(-1000000)", show=False),
        Binding("end,G", "move(1000000)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """A line was chosen by Enter."""

        def __init__(self, view: LineView, index: int) -> None:
            self.view, self.index = view, index
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = 0
        self.first = 0
        self._shown: list[Line] = []
        self._strips: list[Strip] = []

    @property
    def is_drawn(self) -> bool:
        """Whether the view has been drawn."""
        return bool(self._shown)

    def heading(self) -> Sequence[Line]:
        """The lines at the top, which do not scroll."""
        return ()

    def count(self) -> int:
        """The number of lines."""
        raise NotImplementedError

    def line(self, index: int) -> Line:
        """The content of a line."""
        raise NotImplementedError

    def placeholder(self) -> Line:
        """The content of a view without lines."""
        return ()

    def prepare(self, indices: range) -> None:
        """Called before these lines are made, for work that is cheaper for all of them at once."""

    def draw(self) -> None:
        """Make the visible lines; refresh the parts of the screen that changed."""
        width, height = self.size  # once: Textual computes it for each access
        if not width or not height or not self.display:
            return
        heading = list(self.heading())
        height_left = max(height - len(heading), 1)
        self._keep_in_sight(height_left)
        lines = heading
        cursor = self.cursor if self.has_cursor and self.has_focus else -1
        in_sight = range(self.first, min(self.first + height_left, self.count()))
        self.prepare(in_sight)
        for index in in_sight:
            line = self.line(index)
            chosen = index == cursor
            lines.append(tuple((text, style + SELECTED) for text, style in line) if chosen else line)
        if not in_sight:
            lines.append(self.placeholder())
        before, self._shown = self._shown, lines
        self._strips = self._made(before, lines, width)
        changed = [
            Region(start, y, width - start, 1)
            for y, (old, new) in enumerate(zip_longest(before, lines, fillvalue=()))
            if old is not new and (start := _first_difference(old, new)) < width
        ]
        if changed:
            self.refresh(*changed)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines that `draw` has made; there are no borders or filters to apply."""
        blank = Strip.blank(self.size.width, severity.GROUND)
        found = [self._strips[y] if y < len(self._strips) else blank for y in crop.line_range]
        return [strip.crop(crop.x, crop.right) for strip in found]

    def on_resize(self, _: Resize) -> None:
        """Draw everything again."""
        self._shown, self._strips = [], []
        self.draw()
        self.refresh()

    def on_focus(self) -> None:
        """Show the cursor."""
        self.draw()

    def on_blur(self) -> None:
        """Hide it."""
        self.draw()

    def on_click(self, event: Click) -> None:
        """Move the cursor to the line under the pointer."""
        index = self.first + event.y - len(self.heading())
        if event.y >= len(self.heading()) and index < self.count():
            self._go(index)

    def on_mouse_scroll_down(self, _: MouseScrollDown) -> None:
        """Scroll down by three lines."""
        self.action_move(3)

    def on_mouse_scroll_up(self, _: MouseScrollUp) -> None:
        """Scroll up by three lines."""
        self.action_move(-3)

    def action_move(self, by: int) -> None:
        """Move by a number of lines."""
        self._go((self.cursor if self.has_cursor else self.first) + by)

    def action_page(self, by: int) -> None:
        """Move by a number of pages."""
        self.action_move(by * max(self.size.height - len(self.heading()) - 1, 1))

    def action_choose(self) -> None:
        """Post that the line under the cursor was chosen."""
        if self.has_cursor and 0 <= self.cursor < self.count():
            self.post_message(self.Chosen(self, self.cursor))

    def _made(self, before: list[Line], lines: list[Line], width: int) -> list[Strip]:
        """The strips of these lines; unchanged ones are reused."""
        return [
            self._strips[y] if y < len(before) and before[y] == line else _strip(line, width)
            for y, line in enumerate(lines)
        ]

    def _go(self, index: int) -> None:
        if self.has_cursor:
            self.cursor = index
        else:
            self.first = index
        self.draw()

    def _keep_in_sight(self, height_left: int) -> None:
        last = self.count() - 1
        self.cursor = max(0, min(self.cursor, last))
        if self.has_cursor:
            self.first = min(max(self.first, self.cursor - height_left + 1), self.cursor)
        self.first = max(0, min(self.first, last - height_left + 1))


def _strip(line: Line, width: int) -> Strip:
    """A line as a strip. Every character takes one cell, so its width is its length."""
    segments = [_segment(text, style) for text, style in line]
    length = sum(len(text) for text, _ in line)
    if length < width:
        segments.append(_segment(" " * (width - length), severity.PLAIN))
    strip = Strip(segments, max(length, width))
    return strip.crop(0, width) if length > width else strip


@lru_cache(8192)
def _segment(text: str, style: Style) -> Segment:
    return Segment(text, severity.GROUND + style)


def _first_difference(before: Line, after: Line) -> int:
    """The first column of a line that changed; beyond its end if the line is the same."""
    at = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            return at
        at += len(new[0])
    return _NOWHERE if len(before) == len(after) else at
