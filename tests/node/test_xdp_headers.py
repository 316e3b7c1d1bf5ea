# SPDX-License-Identifier: Apache-2.0
"""Finding kernel headers where distributions install them."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from hipsnet.node.headers import find_headers


def whole_tree(folder: Path) -> Path:
    for name in ("include/generated/autoconf.h", "include/linux/types.h"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def split_tree(sources: Path, version: str) -> tuple[Path, Path]:
    """Debian's halves: (common, amd64)."""
    common, built = sources / f"linux-headers-{version}-common", sources / f"linux-headers-{version}-amd64"
    for path in (common / "include/linux/types.h", built / "include/generated/autoconf.h"):
        path.parent.mkdir(parents=True)
        path.touch()
    (built / "Makefile").write_text(f"# made\ninclude {common}/Makefile\n")
    return common, built


def test_the_running_kernels_own_come_first(tmp_path: Path) -> None:
    modules, sources = tmp_path / "modules", tmp_path / "src"
    own = whole_tree(modules / platform.release() / "build")
    split_tree(sources, "99.1.0-1")
    found = find_headers(modules, sources)
    assert found is not None
    assert (found.source, found.build, found.running) == (own, own, True)


def test_the_newest_of_the_distribution_serve_as_well(tmp_path: Path) -> None:
    split_tree(tmp_path, "6.1.0-9")
    common, built = split_tree(tmp_path, "6.1.0-10")
    found = find_headers(tmp_path / "none", tmp_path)
    assert found is not None
    assert (found.source, found.build, found.running) == (common, built, False)
    assert f"-I{built}/include/generated/uapi" in found.cflags


@pytest.mark.parametrize("half", ["common", "amd64"])
def test_an_incomplete_header_tree_is_not_used(tmp_path: Path, half: str) -> None:
    split_tree(tmp_path, "6.1.0-10")
    other = {"common": "amd64", "amd64": "common"}[half]
    (tmp_path / f"linux-headers-6.1.0-10-{other}").rename(tmp_path / "elsewhere")
    assert find_headers(tmp_path / "none", tmp_path) is None


def test_no_headers_at_all(tmp_path: Path) -> None:
    assert find_headers(tmp_path / "none", tmp_path / "nothing") is None
