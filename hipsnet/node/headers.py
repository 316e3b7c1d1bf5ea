# SPDX-License-Identifier: Apache-2.0
"""Where the kernel headers are that bcc compiles against."""

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
    """A tree of headers: `source` is for BCC_KERNEL_SOURCE, `build` has what one configuration generated.

    The two differ where the distribution splits them (Debian). `running` tells whether they are those of the
    kernel that runs; XDP programs use no structure of the kernel's inside, so others serve as well.
    """

    source: Path
    build: Path
    running: bool

    @property
    def cflags(self) -> tuple[str, ...]:
        """What the compiler needs to find the generated half."""
        return tuple(f"-I{self.build / folder.format(arch=_architecture())}" for folder in _GENERATED)


def find_headers(modules: Path = Path("/lib/modules"), sources: Path = Path("/usr/src")) -> Headers | None:
    """The running kernel's headers; else the newest that are installed; None if there are none."""
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
    """(source, build) of a folder that was configured for this machine."""
    if not (build / "include/generated/autoconf.h").is_file():
        return None
    if (build / "include/linux/types.h").is_file():
        return build, build
    # Debian's half trees say in their Makefile where the other half is.
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
