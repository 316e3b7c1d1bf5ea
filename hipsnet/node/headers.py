# SPDX-License-Identifier: Apache-2.0
"""The kernel headers that bcc compiles against."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

_ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}
_GENERATED = (
    "arch/{arch}/include/generated",
    "include",
    "arch/{arch}/include/generated/uapi",
    "include/generated/uapi",
)


@dataclass(frozen=True)
class Headers:
    """A tree of headers: `source` is for BCC_KERNEL_SOURCE, `build` has the files generated for a configuration.

    The two differ if the distribution splits them (Debian). `running` is whether they belong to the running
    kernel; XDP programs use no internal structures of the kernel, so other headers work as well.
    """

    source: Path
    build: Path
    running: bool

    @property
    def cflags(self) -> tuple[str, ...]:
        """The options that let the compiler find the generated half."""
        return tuple(f"-I{self.build / folder.format(arch=_architecture())}" for folder in _GENERATED)


def find_headers(modules: Path = Path("/lib/modules"), sources: Path = Path("/usr/src")) -> Headers | None:
    """The running kernel's headers, otherwise the newest installed ones; None if there are none."""
    release = platform.release()
    running = _tree(modules / release / "build") or _tree(sources / f"linux-headers-{release}")
    if running is not None:
        return Headers(*running, running=True)
    for folder in sorted(sources.glob("linux-headers-*"), key=_version, reverse=True):
        tree = _tree(folder)
        if tree is not None:
            return Headers(*tree, running=False)
    return None


def _tree(build: Path) -> tuple[Path, Path] | None:
    """(source, build) of a folder that is configured for this machine."""
    if not (build / "include/generated/autoconf.h").is_file():
        return None
    if (build / "include/linux/types.h").is_file():
        return build, build
    # The Makefile of Debian's half trees names the other half.
    makefile = build / "Makefile"
    found = (
        re.search(r"^include (\S+)/Makefile$", makefile.read_text(), re.MULTILINE)
        if makefile.is_file()
        else None
    )
    source = Path(found[1]) if found else None
    return (source, build) if source and (source / "include/linux/types.h").is_file() else None


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", folder.name))


def _architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)
