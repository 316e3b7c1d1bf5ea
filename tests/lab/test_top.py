# SPDX-License-Identifier: Apache-2.0
"""`hipsnet top` on a lab: the screen shows what was counted on the wire."""

from __future__ import annotations

import asyncio
import csv
import gc
import io
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from hipsnet.node import namespace
from orchestrator.telemetry import watching
from orchestrator.telemetry.deadlocks import Deadlock
from orchestrator.telemetry.monitor import Monitor
from orchestrator.top.app import TopApp
from orchestrator.top.detail import DetailScreen
from orchestrator.top.help import HelpScreen
from orchestrator.top.line_view import LineView
from tests.kernel.frames import pfc
from tests.lab.rig import Lab, command_line, hipsnet, run, traces

_ETH_P_ALL = 3
_OUTGOING = 4
Act = Callable[[TopApp, Pilot[None]], Awaitable[None]]


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """A BCube of four servers with the lossless priority 3."""
    lab = make_lab(pfc={"priorities": [3]})
    lab.provision()
    return lab


def pause(lab: Lab, node: str, port: str, priorities: int, frames: int) -> int:
    """Send PFC frames on a port; return how many a second socket received from the wire."""
    with (
        namespace.inside(lab.namespace(node)),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as wire,
    ):
        sender.bind((port, 0))
        wire.bind((port, _ETH_P_ALL))
        wire.settimeout(5)
        frame = pfc(priorities)
        seen = 0
        for _ in range(frames):
            sender.send(frame)
            while True:
                data, address = wire.recvfrom(2048)
                if data == frame and address[2] == _OUTGOING:
                    seen += 1
                    break
        return seen


def drive(lab: Lab, act: Act, size: tuple[int, int] = (80, 24)) -> None:
    """Run the application without its timer, and act on it."""
    with watching.watch(*lab.load(), None) as (ports, sources):
        app = TopApp(ports, Monitor(ports, sources.read), interval_s=1000)

        async def main() -> None:
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                await act(app, pilot)

        asyncio.run(main())


def text(app: TopApp) -> list[str]:
    """The lines of the screen."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def line_of(app: TopApp, *words: str) -> list[str]:
    """Return the words of the first line that contains all these."""
    return next(found for line in text(app) if set(words) <= set(found := line.split()))


def test_the_table_shows_the_frames_that_were_on_the_wire(lab: Lab) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        sent = pause(lab, "l0g0", "p1", 1 << 3, 37)
        app.poll()
        assert app.snapshot is not None
        await pilot.pause()
        seconds = app.snapshot.rates.seconds
        found = line_of(app, "s01.p0", "3")
        shown = float(found[3].replace("k", "")) * (1000 if "k" in found[3] else 1)
        assert shown == pytest.approx(sent / seconds, rel=0.006)
        assert sent == 37
        assert (
            line_of(app, "l0g0.p1", "3")[5] == found[3]
        )  # frames received by one end were sent by the other
        assert line_of(app, "s00.p0", "3")[3] == "0"
        app.poll()
        await pilot.pause()
        assert line_of(app, "s01.p0", "3")[3] == "0"

    drive(lab, act)


def test_one_port_shows_its_total_and_the_port_that_pauses_it(lab: Lab) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        sent = pause(lab, "l1g1", "p0", 1 << 3 | 1 << 5, 11)
        app.poll()
        await pilot.press("slash", *"s01.p1", "space", *"p5", "enter", "enter")
        await pilot.pause()
        assert isinstance(app.screen, DetailScreen)
        assert line_of(app, "rx_pause_frames")[2] == str(sent) == "11"
        assert any("l1g1.p0 pauses s01.p1 in priority 5" in line for line in text(app))
        await pilot.press("escape", "escape", "3")
        assert line_of(app, "l1g1.p0", "s01.p1", "5")[-1] == "l1g1"

    drive(lab, act)


def test_deadlocks_are_listed_above_the_pauses(lab: Lab) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        pause(lab, "l0g0", "p1", 1 << 3, 2)
        app.poll()
        await pilot.press("3")
        assert app.snapshot is not None and app.snapshot.deadlocks == ()
        assert not any("deadlock" in line for line in text(app))
        app.pauses.show(replace(app.snapshot, deadlocks=(Deadlock(3, ("s00.p0", "s01.p1")),)))
        await pilot.pause()
        shown = [line.strip() for line in text(app)[2:4]]
        assert shown[0] == "deadlock, priority 3: s00.p0 -> s01.p1 -> s00.p0"
        assert shown[1].startswith("l0g0.p1")

    drive(lab, act)


def test_a_server_that_pauses_a_server_is_shown_on_both(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab({"kind": "torus", "dims": [3]})
    lab.provision()

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        pause(lab, "s1", "p1", 1 << 4, 5)  # p1 of s1 leads to p0 of s0
        app.poll()
        await pilot.press("2")
        await pilot.pause()
        signs = next(line for line in text(app) if "s0 " in line and "s2 " in line)
        assert re.search(r"s0 [░▒▓]· s1", signs)

    drive(lab, act)


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
def test_every_key_does_what_the_help_says(lab: Lab, size: tuple[int, int]) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        def focus() -> str | None:
            return app.focused.id if app.focused else None

        for key, view in (("2", "map"), ("3", "pauses"), ("4", "log"), ("1", "ports"), ("tab", "map")):
            await pilot.press(key)
            assert focus() == view
        shown = [view for view in ("ports", "map", "pauses", "log") if app.query_one(f"#{view}").display]
        assert shown == (["ports", "map", "pauses", "log"] if size[0] == 200 else ["map"])
        await pilot.press("1", "j", "down", "k", "G")
        assert app.table.cursor == app.table.count() - 1
        await pilot.press("home", "question_mark")
        assert isinstance(app.screen, HelpScreen)
        assert max(len(line.rstrip()) for line in text(app)) <= 80
        await pilot.press("q", "space")
        assert app.is_frozen and "FROZEN" in text(app)[0]
        await pilot.press("space", "greater_than_sign", "minus")
        assert not app.is_frozen and not app.table.descending
        await pilot.press("slash", *"l0g0", "enter")
        assert [line.split()[1] for line in text(app)[2:] if "3 l" in line or " l0g0" in line]
        assert app.table.count() == 4  # two ports of the switch, and their peers
        await pilot.press("escape")
        assert app.table.count() == 16

    drive(lab, act, size)


def test_a_cut_cable_is_seen_and_logged(lab: Lab) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        # in a separate process: this thread runs an event loop already
        run("ip", "-n", lab.namespace("l0g0"), "link", "set", "p1", "down")
        await pilot.press("4")
        await poll_until(app, pilot, " 2 down")
        assert line_of(app, "link", "down", "s01.p0")
        run("ip", "-n", lab.namespace("l0g0"), "link", "set", "p1", "up")
        await poll_until(app, pilot, " 0 down")
        assert line_of(app, "link", "up", "s01.p0")

    drive(lab, act)


async def poll_until(app: TopApp, pilot: Pilot[None], expected: str) -> None:
    """Poll until the first line contains the text: the kernel reports carrier changes asynchronously."""
    for _ in range(100):
        app.poll()
        await pilot.pause(0.05)
        if expected in text(app)[0]:
            return
    raise AssertionError(text(app)[0])


def test_only_what_changed_is_drawn_again(lab: Lab) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        drawn: list[tuple[str | None, int]] = []
        refresh = LineView.refresh

        def spy(self: LineView, *regions: object, **options: object) -> object:
            drawn.append((self.id, len(regions)))
            return refresh(self, *regions, **options)  # type: ignore[arg-type]

        app.poll()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LineView, "refresh", spy)
            app._show()
            assert drawn == []
            pause(lab, "l0g0", "p1", 1 << 3, 2)
            app.poll()
        assert [view for view, _ in drawn] == ["ports"]

    drive(lab, act)


def test_a_lab_can_be_removed_and_made_again_while_it_is_watched(lab: Lab) -> None:
    with watching.watch(*lab.load(), None) as (_, sources):
        assert sources.read().present.all()
        held = sockets()
        lab.run("destroy")
        assert not sources.read().present.any()
        left = traces(lab.name)
        assert (left.namespaces, left.pins) == ((), ())
        assert sockets() == held - len(lab.load()[1].nodes)
        lab.provision()
        again = sources.read()
        assert again.present.all() and again.up.all()


def sockets() -> int:
    """Count the open sockets of this process."""
    gc.collect()
    return sum(path.readlink().name.startswith("socket:") for path in _open_files())


def _open_files() -> Iterator[Path]:
    for path in Path("/proc/self/fd").iterdir():
        if path.is_symlink():  # else it was the folder itself
            yield path


@contextmanager
def terminal(lab: Lab, size: tuple[int, int], **environment: str) -> Iterator[Callable[..., str]]:
    """Run `hipsnet top` in a terminal; yield a function that presses keys and returns the screen."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux: a real terminal")
    tmux = ["tmux", "-L", f"{lab.name}-top", "-f", "/dev/null"]
    settings = [option for name, value in environment.items() for option in ("-e", f"{name}={value}")]
    width, height = map(str, size)
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", width, "-y", height, *settings, *command_line("top", lab.file)],
        check=True,
    )

    def screen(*keys: str, options: tuple[str, ...] = ()) -> str:
        if keys:
            subprocess.run([*tmux, "send-keys", *keys], check=True)
        return subprocess.run(
            [*tmux, "capture-pane", "-p", *options], check=True, capture_output=True, text=True
        ).stdout

    try:
        yield screen
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)


def until(screen: Callable[..., str], expected: str, **options: tuple[str, ...]) -> str:
    """Wait until the screen matches the pattern; return the screen."""
    end = time.monotonic() + 30
    while not re.search(expected, shown := screen(**options)):
        assert time.monotonic() < end, f"{expected!r} is not on the screen:\n{shown}"
        time.sleep(0.1)
    return shown


@pytest.mark.parametrize(
    ("size", "environment"), [((80, 24), {}), ((200, 60), {}), ((80, 24), {"NO_COLOR": "1"})], ids=str
)
def test_a_real_terminal(lab: Lab, size: tuple[int, int], environment: dict[str, str]) -> None:
    with terminal(lab, size, **environment) as screen:
        until(screen, "s00.p0")
        sent = pause(lab, "l0g0", "p0", 1 << 3, 23)
        until(screen, "[░▒▓] s00.p0")  # the sign depends on the length of the interval
        coloured = screen(options=("-e",))
        assert bool(re.search(r"\x1b\[[0-9;]*[349][0-8]\b", coloured)) == (not environment)
        screen("Enter")  # the cursor is on the first line, the port that is paused most
        shown = until(screen, "rx_pause_frames")
        (line,) = (line.split() for line in shown.splitlines() if "rx_pause_frames" in line)
        assert line[2] == str(sent) == "23"
        screen("q")
        screen("q")
        end = time.monotonic() + 10
        with pytest.raises(subprocess.CalledProcessError):  # it has ended, and the terminal with it
            while time.monotonic() < end:
                screen()
                time.sleep(0.1)


def test_scripts_get_the_same_numbers_without_textual(lab: Lab) -> None:
    sent = pause(lab, "l0g0", "p0", 1 << 3, 9)
    done = lab.run("top", "--json", "--interval", "0.1")
    document = json.loads(done.stdout)
    (found,) = (entry for entry in document["samples"] if (entry["port"], entry["priority"]) == ("s00.p0", 3))
    assert found["total"]["rx_pause_frames"] == sent
    assert found["rx_pause_per_s"] == 0 and found["up"]
    rows = list(csv.DictReader(io.StringIO(lab.run("top", "--csv", "--interval", "0.1").stdout)))
    (row,) = (row for row in rows if (row["port"], row["priority"]) == ("l0g0.p0", "3"))
    assert row["tx_pause_frames_total"] == str(sent)
    assert "s00.p0" in lab.run("top", "--once", "--interval", "0.1").stdout
    code = (
        "import sys; from orchestrator.cli import main; sys.argv = ['hipsnet', 'top', sys.argv[1], '--json',"
        " '--interval', '0.1']\ntry: main()\nexcept SystemExit: pass\nassert 'textual' not in sys.modules"
    )
    run(command_line()[0], "-c", code, str(lab.file))


def test_top_reports_what_it_cannot_watch(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab()
    done = lab.run("top", "--once")
    assert done.returncode == 1 and "is not provisioned" in done.stderr
    assert lab.run("top", "--once", "--json").returncode == 2
    assert lab.run("top", "--once", "--interval", "0").returncode == 2
    assert "not a terminal" in lab.run("top").stderr
    assert os.geteuid() == 0 and hipsnet("top", "/nonexistent").returncode == 2
