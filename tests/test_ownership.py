# SPDX-License-Identifier: Apache-2.0
"""Folders that other users can change are refused, at each level of the path, for root and for other users."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hipsnet.errors import CapabilityError
from hipsnet.ownership import CACHE_ADVICE, is_private_file, make_private, require_private

NOBODY = 65534


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of root's in /tmp, open to others as /var is; in it a/b/c."""
    if os.geteuid() != 0:
        pytest.skip("root: gives folders to other users")
    with tempfile.TemporaryDirectory(prefix="hipsnet-ownership-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "a/b/c").mkdir(parents=True, mode=0o755)
        for place in ("a", "a/b", "a/b/c"):
            (Path(folder) / place).chmod(0o755)
        yield Path(folder)


def give(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def mode(bits: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(bits)


def test_a_folder_below_a_sticky_parent_is_trusted(home: Path) -> None:
    require_private(home / "a/b/c", "")
    (home / "a").chmod(0o1777)
    require_private(home / "a/b/c", "")
    require_private(home / "a/b/c/not/yet/there", "")


@pytest.mark.parametrize("place", ["a", "a/b", "a/b/c"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (give, "belongs to nobody"),
        (mode(0o777), r"can be written by others \(drwxrwxrwx\)"),
        (mode(0o775), r"can be written by others \(drwxrwxr-x\)"),
        (mode(0o757), r"can be written by others \(drwxr-xrwx\)"),
    ],
    ids=["owner", "all", "group", "others"],
)
def test_each_folder_of_the_path_is_checked(
    home: Path, place: str, change: Callable[[Path], None], words: str
) -> None:
    change(home / place)
    for refuse in (require_private, lambda folder, advice: make_private(folder, 0o700, advice)):
        with pytest.raises(CapabilityError, match=f"{home}/{place}:? {words}, .* by root; do this$"):
            refuse(home / "a/b/c", "do this")
        with pytest.raises(CapabilityError, match=words):
            refuse(home / "a/b/c/not/yet/there", "do this")
    assert list((home / "a/b/c").iterdir()) == []


def test_the_folder_itself_may_not_be_sticky_and_open(home: Path) -> None:
    (home / "a/b/c").chmod(0o1777)
    with pytest.raises(CapabilityError, match="can be written by others"):
        require_private(home / "a/b/c", "")


def test_links_are_followed_step_by_step(home: Path) -> None:
    (home / "safe").mkdir()
    (home / "a/b/link").symlink_to("../../safe")
    (home / "entry").symlink_to(home / "a/b/link")
    require_private(home / "entry", "")
    (home / "a/b").chmod(0o777)  # neither in the path nor in its target, but the link lies there
    with pytest.raises(CapabilityError, match=f"{home}/a/b can be written"):
        require_private(home / "entry", "")
    (home / "a/b").chmod(0o1777)
    require_private(home / "entry", "")
    give(home / "a/b/link")
    with pytest.raises(CapabilityError, match=f"{home}/a/b/link belongs to nobody"):
        require_private(home / "entry", "")


def test_a_cycle_of_links_is_an_error(home: Path) -> None:
    (home / "x").symlink_to("y")
    (home / "y").symlink_to("x")
    with pytest.raises(OSError, match="Too many levels"):
        require_private(home / "x", "")


def test_missing_folders_are_made_with_their_mode(home: Path) -> None:
    before = os.umask(0)
    try:
        make_private(home / "a/new/cache", 0o700, "")
    finally:
        os.umask(before)
    assert [(home / place).stat().st_mode & 0o777 for place in ("a", "a/new", "a/new/cache")] == [
        0o755,
        0o700,
        0o700,
    ]


def test_files(home: Path) -> None:
    file = home / "file"
    assert not is_private_file(file)
    file.write_text("")
    file.chmod(0o644)
    assert is_private_file(file)
    (home / "link").symlink_to(file)
    assert not is_private_file(home / "link")
    file.chmod(0o664)
    assert not is_private_file(file)
    file.chmod(0o644)
    give(file)
    assert not is_private_file(file)


LOAD_STACK = "from hipsnet.stack.ports.loop import core; core()"
LOAD_PROGRAMS = "from hipsnet.node import programs; programs.program_of('cable')"


@pytest.mark.parametrize("code", [LOAD_STACK, LOAD_PROGRAMS], ids=["C library", "XDP programs"])
def test_root_runs_no_code_from_another_users_cache(home: Path, code: str) -> None:
    """As with `sudo -E` and the user's XDG_CACHE_HOME: a file of root's in it proves nothing."""
    (home / "a/hipsnet").mkdir(mode=0o700)
    give(home / "a")
    environment = os.environ | {
        "XDG_CACHE_HOME": str(home / "a"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"{home}/a/hipsnet: {home}/a belongs to nobody, so it is not trusted by root; {CACHE_ADVICE}" in (
        done.stderr
    )
    assert list((home / "a/hipsnet").iterdir()) == []
